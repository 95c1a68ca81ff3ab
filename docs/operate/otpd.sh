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
set -a
for file in $(value EnvironmentFile); do
  # shellcheck disable=SC1090
  . "$file" || exit
done
set +a
cd "$(value WorkingDirectory)" || exit
command=$(value ExecStart)
command=${command% serve}
exec setpriv --reuid="$(value User)" --regid="$(value Group)" --init-groups "${command##* }" "$@"
