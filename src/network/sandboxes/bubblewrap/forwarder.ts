/** Where commands find their way out: programs know it from the environment. */
export const PROXY_PORT = 3128

/** Where the socket of the proxy is for the forwarder. */
export const PROXY_SOCKET = '/run/proxy.sock'

/**
 * A program for perl, which every Debian has: it listens on the loopback of a command's own network
 * namespace, becomes the command, and leaves a process behind that hands connections on to the
 * socket of the proxy, byte by byte. It ends with the namespace. Arguments: the command.
 */
export const FORWARDER = `
use strict; use Socket; use Fcntl; use IO::Select; use POSIX ();
my ($port, $path) = (${PROXY_PORT}, '${PROXY_SOCKET}');
socket(my $door, PF_INET, SOCK_STREAM, 0) or exit 126;
setsockopt($door, SOL_SOCKET, SO_REUSEADDR, 1);
bind($door, sockaddr_in($port, INADDR_LOOPBACK)) && listen($door, 64) or exit 126;
my $pid = fork; defined $pid or exit 126;
if ($pid) { close $door; exec { $ARGV[0] } @ARGV or exit 127 }
POSIX::setsid(); chdir '/'; $SIG{PIPE} = 'IGNORE';
open STDIN, '<', '/dev/null'; open STDOUT, '>', '/dev/null'; open STDERR, '>', '/dev/null';
my (%peer, %waiting, %ended, %handle);
my $most = 65536;
sub unblock { my $h = shift; fcntl($h, F_SETFL, fcntl($h, F_GETFL, 0) | O_NONBLOCK) }
sub drop { my $h = shift; my $p = delete $peer{$h}; delete $_->{$h} for \\%waiting, \\%ended, \\%handle;
  close $h; drop($p) if $p && exists $peer{$p} }
sub finish { my $h = shift; my $p = $peer{$h} or return;
  shutdown($p, 1) if $ended{$h} == 1 && $waiting{$p} eq '' && ($ended{$h} = 2);
  drop($h) if ($ended{$h} || 0) == 2 && ($ended{$p} || 0) == 2 }
while (1) {
  my $r = IO::Select->new(keys(%handle) < 128 ? $door : ());
  my $w = IO::Select->new;
  for (values %handle) { my $p = $peer{$_};
    $r->add($_) if !$ended{$_} && length $waiting{$p} < $most;
    $w->add($_) if $waiting{$_} ne '' }
  my ($in, $out) = IO::Select->select($r, $w, undef);
  for my $h (@{$out || []}) { next unless exists $peer{$h};
    my $n = syswrite $h, $waiting{$h};
    if (defined $n) { substr($waiting{$h}, 0, $n) = ''; finish($peer{$h}) if $ended{$peer{$h}} }
    elsif (!$!{EAGAIN} && !$!{EINTR}) { drop($h) } }
  for my $h (@{$in || []}) {
    if ($h == $door) {
      my ($in, $out);
      accept($in, $door) or next;
      socket($out, PF_UNIX, SOCK_STREAM, 0) or next;
      connect($out, sockaddr_un($path)) or next;
      unblock($_) for $in, $out;
      $peer{$in} = $out; $peer{$out} = $in;
      for ($in, $out) { $handle{$_} = $_; $waiting{$_} = '' }
      next }
    next unless exists $peer{$h};
    my $n = sysread $h, my $bytes, $most;
    if (!defined $n) { drop($h) unless $!{EAGAIN} || $!{EINTR} }
    elsif ($n) { $waiting{$peer{$h}} .= $bytes }
    else { $ended{$h} = 1; finish($h) } } }
`
