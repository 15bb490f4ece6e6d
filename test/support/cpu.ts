/**
 * Returns the milliseconds of processor time that this process has used: other load on the machine
 * does not count.
 */
export function readCpu(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
