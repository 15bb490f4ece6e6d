import type { Config } from '../config.ts'
import type { Clock } from '../kernel/clock.ts'
import type { AccessTokens } from './authorize/google-service-account.ts'
import type { Resolve, Send } from './egress.ts'

/** Asks the world. */
export interface Egress {
  /** The only way out. */
  send: Send
  /** Asks where a host is. */
  resolve: Resolve
  /** What Google service accounts have bought. */
  accessTokens: AccessTokens
}

/** What this wing reaches for. */
export interface UpstreamWorld {
  config: Config
  egress: Egress
  clock: Clock
}
