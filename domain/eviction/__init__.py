"""Which kept thing goes first when there is no room: the policies, and the rules that choose among them."""
