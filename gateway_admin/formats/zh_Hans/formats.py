"""Times in UTC to the second, in the order that also sorts: they are compared with logs."""

DATETIME_FORMAT = r"Y-m-d H:i:s\Z"
DATE_FORMAT = "Y-m-d"
NUMBER_GROUPING = 3
THOUSAND_SEPARATOR = ","
