"""A small tokenizer of the kind that most models have: byte-level, with special tokens around each message."""

from functools import cache

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

from workers.engines.models.smollm2_chat import TEMPLATE
from workers.tokenization.rule import Tokenization

MARKS = ("<|im_start|>", "<|im_end|>", "<|im|>")
CORPUS = (
    "The keeper opens the gate and the water rises. You are a helpful assistant named after a lock; answer the user.",
    "水闸让水分批通过。许多租户共享少量引擎。",
    '{"type": "function", "function": {"name": "get_level", "parameters": {"type": "object", "properties": {}}}}',
)


@cache
def byte_level() -> Tokenizer:
    """With ``<|im_start|>`` put before a text where special tokens are asked for."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(vocab_size=600, special_tokens=list(MARKS), initial_alphabet=ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS * 20, trainer)
    tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", tokenizer.token_to_id("<|im_start|>"))]
    )
    return tokenizer


@cache
def with_prefix() -> Tokenizer:
    """The kind that puts a space before a text, but not after a special token."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="first")
    trainer = BpeTrainer(vocab_size=300, special_tokens=["<unk>"])
    tokenizer.train_from_iterator(CORPUS * 20, trainer)
    tokenizer.add_special_tokens([AddedToken("<s>", special=True, normalized=False)])
    return tokenizer


def rule(template: str = TEMPLATE) -> Tokenization:
    """What a worker with this tokenizer and SmolLM2's chat template publishes."""
    return Tokenization(byte_level().to_str().encode(), template)
