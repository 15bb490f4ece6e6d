import { invalid } from '../../base/errors.ts'
import type { Config } from '../../config.ts'

/**
 * The hosts that commands of a container may ask, sorted: names, names below `*.`, or `*` for every
 * public one. Without any, there is no network.
 */
export type AllowedHosts = string[]

/** A way out of one container, as long as it runs. */
export interface ContainerDoor {
  /** The path of a socket that speaks the protocol of a proxy, for commands alone. */
  socket: string
  close(): Promise<void>
}

/** Opens ways out of containers. */
export interface ContainerNetwork {
  /** Opens a way to these hosts. */
  open(hosts: AllowedHosts): Promise<ContainerDoor>
}

/** A name of the DNS with at least one dot, or the names below one. */
const HOST = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$/

/**
 * Reads the hosts of a policy. Throws 400 naming the first that is neither a name, one below `*.`
 * nor `*`: an address is none, as a name says who is asked.
 */
export function readAllowedHosts(domains: string[], field: string): AllowedHosts {
  const hosts = domains.map((domain, i) => {
    const host = domain.toLowerCase().replace(/\.$/, '')
    if (host === '*' || HOST.test(host)) return host
    throw invalid(`${field}.${i}: expected a host, *.host or *`, `${field}.${i}`)
  })
  return [...new Set(hosts)].sort()
}

/** Returns whether a host, in small letters, is among these. */
const isAllowedHost = (hosts: AllowedHosts, host: string): boolean =>
  hosts.some(
    allowed =>
      allowed === '*' ||
      allowed === host ||
      (allowed.startsWith('*.') &&
        host.endsWith(allowed.slice(1)) &&
        host.length > allowed.length - 1),
  )

/** Returns whether both the policy of a container and the config allow a host. */
export const isReachable = ({ sandbox }: Config, hosts: AllowedHosts, host: string): boolean =>
  isAllowedHost(hosts, host) && isAllowedHost(sandbox.allowed_hosts, host)
