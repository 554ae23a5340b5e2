# shellcheck shell=bash
# Linux's net/forwarding/lib.sh sources this at its end (guest.py patches a copy). It changes two things:
#
# 1. Each VRF of a test is a network namespace instead: `ip`, `tc` and the others below run in the namespace of
#    the device that they name. A VRF needs policy rules, with which Bora leaves all traffic to Linux, and a test has
#    all its hosts and routers in one namespace. VRFS=keep keeps the VRFs.
# 2. After the set-up Bora runs on the routers' ports, if BORA_PATH is set: a router is a namespace (or VRF)
#    with at least two of the test's ports. Before the clean-up Bora's counters are written to $BORA_RECORD.

declare -A WHERE    # device -> namespace; the first namespace is not in it
declare -A SPACE    # VRF (namespace) -> 1
declare -A TABLE    # table of a VRF -> VRF
declare -A NEXTHOP  # number of a next hop -> namespace
declare -A SYSCTLS  # settings that new namespaces inherit

: "${VRFS:=namespaces}"

# Namespace of the first device or VRF among the arguments; empty for the first namespace.
namespace_of()
{
	local word
	for word; do
		[[ -n $word ]] || continue
		if [[ ${SPACE[$word]} ]]; then echo "$word"; return; fi
		if [[ ${WHERE[$word]} ]]; then echo "${WHERE[$word]}"; return; fi
	done
}

# Runs a program in the namespace of the device that it names.
run_there()
{
	local space
	space=$(namespace_of "$@")
	if [[ $space ]]; then command ip netns exec "$space" "$@"; else command "$@"; fi
}

if [[ $VRFS != keep ]]; then
	tc() { run_there tc "$@"; }
	bridge() { run_there bridge "$@"; }
	ethtool() { run_there ethtool "$@"; }
	tcpdump() { run_there tcpdump "$@"; }
	mausezahn() { run_there mausezahn "$@"; }
	arping() { run_there arping "$@"; }
	ping() { run_there ping "$@"; }
	ping6() { run_there ping6 "$@"; }
	nstat() { run_there nstat "$@"; }
	master_name_get() { echo "${WHERE[$1]:-null}"; }

	vrf_prepare() { :; }
	vrf_cleanup() { :; }
	ip() { translated_ip "$@"; }

	# Settings of a device go to its namespace, all others to every namespace.
	sysctl()
	{
		local space key=${*: -1} setting
		setting=${key%%=*}
		space=$(namespace_of ${setting//[.\/]/ })
		if [[ $space ]]; then command ip netns exec "$space" sysctl "$@"; return; fi
		if [[ $key == *=* && $key == net* ]]; then
			SYSCTLS[$setting]=${key#*=}
			for space in "${!SPACE[@]}"; do
				command ip netns exec "$space" sysctl "$@" >/dev/null 2>&1
			done
		fi
		command sysctl "$@"
	}
fi

add_space()
{
	local name=$1 table=$2 setting
	command ip netns add "$name" || return
	SPACE[$name]=1
	TABLE[$table]=$name
	command ip -n "$name" link set lo up
	# A VRF has these settings of its namespace.
	for setting in net.ipv4.conf.{all,default}.{rp_filter,forwarding} net.ipv6.conf.{all,default}.forwarding; do
		SYSCTLS[$setting]=${SYSCTLS[$setting]:-$(command sysctl -n "$setting")}
	done
	for setting in "${!SYSCTLS[@]}"; do
		command ip netns exec "$name" sysctl -qw "$setting=${SYSCTLS[$setting]}" 2>/dev/null
	done
}

del_space()
{
	local name=$1 device
	for device in "${!WHERE[@]}"; do
		[[ ${WHERE[$device]} == "$name" ]] && move "$device" ""
	done
	unset "SPACE[$name]"
	command ip netns del "$name"
}

# Moves a device to a namespace (none: the first). As with a VRF, it is up afterwards if it was.
move()
{
	local device=$1 to=$2 from=${WHERE[$1]} up
	[[ $from == "$to" ]] && return
	command ip ${from:+-n $from} link show dev "$device" up 2>/dev/null | grep -q . && up=yes
	command ip ${from:+-n $from} link set dev "$device" netns "${to:-$$}" 2>/dev/null
	WHERE[$device]=$to
	[[ -z $up ]] || command ip ${to:+-n $to} link set dev "$device" up
}

# `ip` with VRFs as namespaces.
translated_ip()
{
	local -a flags=()
	local space
	while [[ $1 == -* ]]; do
		if [[ $1 == -n || $1 == -netns ]]; then command ip "${flags[@]}" "$@"; return; fi
		flags+=("$1")
		shift
	done
	case "$1 $2" in
	"vrf exec")
		space=$3
		shift 3
		if [[ ${SPACE[$space]} ]]; then command ip netns exec "$space" "$@"; else "$@"; fi
		return ;;
	"link add")
		if [[ $* =~ (dev\ |name\ |add\ )([^ ]+)\ type\ vrf\ table\ ([0-9]+) ]]; then
			add_space "${BASH_REMATCH[2]}" "${BASH_REMATCH[3]}"
			return
		fi ;;
	"link del"|"link delete")
		if [[ ${SPACE[${*: -1}]} ]]; then del_space "${*: -1}"; return; fi ;;
	"link set")
		if set_master "${@:3}"; then return; fi ;;
	esac
	run_ip "$@"
}

# Moves a device that comes to a VRF or leaves one; fails, having done nothing, for other commands.
set_master()
{
	[[ $1 == dev ]] && shift
	local device=$1
	shift
	if [[ $* == nomaster && ${WHERE[$device]} ]]; then
		command ip -n "${WHERE[$device]}" link show dev "$device" | grep -q ' master ' && return 1
		move "$device" ""
	elif [[ $1 == master && ${SPACE[$2]} ]]; then
		move "$device" "$2"
		shift 2
		[[ $# -eq 0 ]] || command ip -n "${WHERE[$device]}" link set dev "$device" "$@"
	else
		return 1
	fi
}

# Runs `ip` in the namespace of what it names; `flags` are the caller's. A VRF itself is its namespace's lo.
run_ip()
{
	local -a words=()
	local space="" object="$1 $2" new="" id=""
	[[ $object == "link add" ]] && { new=$3; [[ $3 == name || $3 == dev ]] && new=$4; }
	[[ $object == nexthop\ * && $3 == id ]] && id=$4
	while [[ $# -gt 0 ]]; do
		case "$1" in
		vrf) if [[ ${SPACE[$2]} ]]; then space=$2; shift 2; continue; fi ;;
		table) if [[ ${TABLE[$2]} ]]; then space=${TABLE[$2]}; shift 2; continue; fi ;;
		# an underlay's VRF is where the tunnel is made
		dev) if [[ $object == "link add" && ${SPACE[$2]} ]]; then space=$2; shift 2; continue; fi ;;
		group|nhid|id)
			local first=${2%%[,/]*}
			[[ $space ]] || space=${NEXTHOP[$first]} ;;
		esac
		if [[ ${SPACE[$1]} ]]; then
			[[ $space ]] || space=$1
			words+=(lo)
		else
			[[ $space || -z $1 ]] || space=${WHERE[$1]}
			words+=("$1")
		fi
		shift
	done
	# a blackhole names no device, so every namespace has it
	if [[ -z $space && $object =~ nexthop\ (add|replace|del) ]]; then
		for space in "${!SPACE[@]}"; do command ip -n "$space" "${flags[@]}" "${words[@]}"; done
		return
	fi
	command ip ${space:+-n "$space"} "${flags[@]}" "${words[@]}" || return
	[[ -z $new ]] || WHERE[$new]=$space
	[[ -z $id ]] || NEXTHOP[$id]=$space
}

# Bora.

declare -A BORAS  # namespace ("first" for the first) -> process

# Lines "NAMESPACE PORT PORT...": the routers of the test.
routers()
{
	local -A ports=()
	local i device place all=""
	for ((i = 1; i <= NUM_NETIFS; ++i)); do
		device=${NETIFS[p$i]}
		place=${WHERE[$device]}
		[[ $VRFS != keep ]] || place=$(command ip -j link show dev "$device" | jq -r '.[0].master // ""')
		ports[${place:-first}]+=" $device"
	done
	for place in "${!ports[@]}"; do
		[[ $(wc -w <<<"${ports[$place]}") -ge 2 ]] || continue
		if [[ $VRFS == keep ]]; then all+=${ports[$place]}; else echo "$place${ports[$place]}"; fi
	done
	[[ -z $all ]] || echo "first$all"
}

in_space()
{
	local space=$1
	shift
	if [[ $space == first ]]; then command "$@"; else command ip netns exec "$space" "$@"; fi
}

# Becomes Bora, so that a signal is Bora's.
become_bora()
{
	local space=$1
	shift
	[[ $space == first ]] || exec ip netns exec "$space" "$BORA" run --path "$BORA_PATH" "$@"
	exec "$BORA" run --path "$BORA_PATH" "$@"
}

start_bora()
{
	local space ports
	local -a options
	while read -r space ports; do
		options=()
		for port in $ports; do options+=(--port "$port"); done
		become_bora "$space" "${options[@]}" >"$BORA_RECORD.$space.log" 2>&1 </dev/null &
		BORAS[$space]=$!
		for ((i = 0; i < 600; ++i)); do
			grep -q ready "$BORA_RECORD.$space.log" && continue 2
			kill -0 "${BORAS[$space]}" 2>/dev/null || break
			sleep 0.1
		done
		echo "Bora does not start in $space: $(tail -n 3 "$BORA_RECORD.$space.log")" | tee -a "$BORA_RECORD.failed"
	done < <(routers)
}

stop_bora()
{
	local space
	for space in "${!BORAS[@]}"; do
		for view in ports drops sync; do
			in_space "$space" "$BORA" show "$view" --json >"$BORA_RECORD.$space.$view" 2>&1
		done
		kill -TERM "${BORAS[$space]}" && wait "${BORAS[$space]}" ||
			echo "Bora in $space ended with $?" >>"$BORA_RECORD.failed"
		in_space "$space" "$BORA" stop >/dev/null 2>&1
	done
	BORAS=()
}

eval "linux_$(declare -f setup_wait)"
eval "linux_$(declare -f pre_cleanup)"

# A veth takes XDP frames only if its peer has GRO on; all have it, in the runs without Bora too.
setup_wait()
{
	local i
	for ((i = 1; i <= NUM_NETIFS; ++i)); do ethtool -K "${NETIFS[p$i]}" gro on; done
	linux_setup_wait "$@"
	[[ -z $BORA_PATH ]] || start_bora
}

pre_cleanup()
{
	[[ -z $BORA_PATH ]] || stop_bora
	linux_pre_cleanup "$@"
}
