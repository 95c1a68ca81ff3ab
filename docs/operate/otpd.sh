#!/bin/sh
# otpd's commands, with the settings, the secrets and the user of the systemd unit. For root alone: docs/operate.md.
# Of the unit it reads Environment= (one variable a line, without quotes), EnvironmentFile=, LoadCredential=, User=, Group=
# and WorkingDirectory=. A NAME_FILE=%d/credential becomes NAME, since that user cannot read the credential's file.
unit=/etc/systemd/system/otpd.service
umask 077

value() { sed -n "s/^$1=//p" "$unit"; }
fail() { echo "otpd: $1" >&2; exit 1; }

[ -r "$unit" ] || fail "$unit cannot be read: run this as root"
while IFS= read -r line; do
  name=${line%%=*}
  case ${line#*=} in
    %d/*)
      file=$(value LoadCredential | sed -n "s|^${line#*=%d/}:||p")
      secret=$(cat "$file") || fail "the unit's credential ${line#*=%d/} cannot be read"
      export "${name%_FILE}=$secret"
      ;;
    *) export "$line" ;;
  esac
done <<END
$(value Environment)
END
# As systemd reads it, and no shell: in a shell a > of a value would write a file.
settings() {
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line#"${line%%[![:space:]]*}"}
    line=${line%"${line##*[![:space:]]}"}
    case $line in '' | '#'* | ';'*) continue ;; esac
    name=${line%%=*}
    text=${line#*=}
    case $name in "$line" | [!A-Za-z_]* | *[!A-Za-z0-9_]* | '') fail "$1: $name is not the name of a value" ;; esac
    case $text in
      \'*\' | \"*\") quote=${text%"${text#?}"} text=${text#?} text=${text%?} ;;
      \'* | \"*) quote=${text%"${text#?}"} text=$text ;;
      *) quote= ;;
    esac
    case $quote$text in
      \'*\'* | \"*\"*) fail "$1: the quotes of $name are not understood here" ;;
      \'*) ;;
      *\\*) fail "$1: the backslash of $name is not understood here: put the value in single quotes" ;;
    esac
    export "$name=$text"
  done <"$1" || exit
}
for file in $(value EnvironmentFile); do
  case $file in -*) [ -e "${file#-}" ] || continue ;; esac
  settings "${file#-}"
done
cd "$(value WorkingDirectory)" || exit
command=$(value ExecStart)
command=${command% serve}
exec setpriv --reuid="$(value User)" --regid="$(value Group)" --init-groups "${command##* }" "$@"
