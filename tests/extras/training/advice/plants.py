"""Small trainings with one planted fault each, and healthy ones."""


# Makes of trainings, by the symptom to find first.
