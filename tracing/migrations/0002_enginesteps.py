from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tracing', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='EngineSteps',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40, unique=True)),
                ('worker_id', models.CharField(max_length=64)),
                ('from_us', models.BigIntegerField()),
                ('to_us', models.BigIntegerField()),
                ('packed', models.BinaryField()),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['worker_id', 'from_us'], name='steps_worker_from')],
            },
        ),
    ]
