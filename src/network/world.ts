import type { Clock } from '../base/clock.ts'
import type { Secret } from '../base/secret.ts'
import type { Config } from '../config.ts'
import type { ServiceAccount } from '../resources/providers/provider.ts'
import type { Resolve, Send } from './egress.ts'

/** Everything that leaves the process: requests, name lookups and token exchanges. */
export interface Egress {
  /** The only way to send a request. */
  send: Send
  /** Resolves a host to its addresses. */
  resolve: Resolve
  /** Caches the access tokens of Google service accounts. */
  accessTokens: AccessTokens
  /** The programs of the operator that run, by their names in the config. */
  programs: Map<string, OwnProgram>
}

/** A program of the operator that runs until the gateway ends or the config has it no more. */
export interface OwnProgram {
  isWanted(config: Config): boolean
  /** Ends it and all that it has started. */
  end(): Promise<void>
}

/** What this room needs from the gateway. */
export interface UpstreamWorld {
  config: Config
  egress: Egress
  clock: Clock
}

/** Access tokens of service accounts, each cached while it is valid. */
export interface AccessTokens {
  /** Returns a token that is valid for another minute. Throws `provider_unavailable` if none is. */
  getToken(account: ServiceAccount): Promise<Secret>
}
