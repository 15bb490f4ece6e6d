/** Starts a program that may mount file systems, which nobody else sees. */
export const NAMESPACE = [
  ...['unshare', '--user', '--map-root-user'],
  ...['--mount', '--propagation', 'private'],
]

/** Whether this machine lets a program do so. */
export const hasMounts =
  Bun.which('unshare') !== null &&
  Bun.spawnSync([...NAMESPACE, 'mount', '-t', 'tmpfs', 'x', '/mnt'], { stderr: 'ignore' }).success
