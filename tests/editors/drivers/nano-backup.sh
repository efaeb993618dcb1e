. "$here/nano.sh"
command='nano -B tree.yaml'
