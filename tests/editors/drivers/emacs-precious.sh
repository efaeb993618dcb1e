emacs_options='file-precious-flag t'
. "$here/emacs.sh"
# It reports success for the temporary file before the rename.
save() { keys C-x C-s; sleep 1; }
