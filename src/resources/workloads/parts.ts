import type { Key } from '../keys/store.ts'
import type { IssuerKeys } from './subject-token.ts'
import type { AccessTokens } from './tokens.ts'
import type { UsedTokens } from './used-tokens.ts'

/** The parts of the gateway that short-lived tokens need. */
export interface Workloads {
  tokens: AccessTokens
  used: UsedTokens
  issuerKeys: IssuerKeys
  /** Keys of subjects that are being made, by hash: simultaneous exchanges share one. */
  making: Map<string, { policy: string; made: Promise<Key> }>
}
