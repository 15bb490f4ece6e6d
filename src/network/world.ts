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
