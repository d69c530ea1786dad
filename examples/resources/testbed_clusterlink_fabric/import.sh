# By the name of a fabric whose files are in the data folder.
terraform import testbed_clusterlink_fabric.continuum continuum
