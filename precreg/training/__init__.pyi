# The names that other rooms may use. They are imported from their modules at their first use.
from .advice.user_recipe import advise_target as advise_target
