-- Keep one answer no longer. ARGV: 1 key
remove_answer(ARGV[1])
