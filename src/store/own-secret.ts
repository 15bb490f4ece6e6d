import { conflict, invalid } from '../base/errors.ts'
import type { Mac } from '../base/mac.ts'

/** The secret that a gateway was given, before it seals anything. */
export interface GivenSecret {
  /** Tells where it comes from; null where there is none yet, and one would be made. */
  findSource(): 'GATEWAY_SECRET' | 'secret.key' | null
  /** In characters, where the operator chose it. */
  length: number | null
  /** Returns null where it cannot be read: that must not prevent the disabling of a key. */
  readMac(): Mac | null
}

/** What a store has that was sealed. */
export interface SealedData {
  /** Whether it has nothing at all yet. */
  isNew: boolean
  isSealed: boolean
  /** Whether the owner of this key has sealed it. One seal that is altered is for `doctor` to tell. */
  isOf(mac: Mac): boolean
}

/** In characters: nobody guesses as many. */
const SHORTEST = 32

/**
 * Throws 409 for data that was sealed with another secret, before anything is written: what this
 * one sealed could not be told from a forgery. Throws 400 for a secret that is too short for new
 * data.
 */
export function requireOwnSecret(
  { isNew, isSealed, isOf }: SealedData,
  { findSource, length, readMac }: GivenSecret,
): void {
  if (!isSealed) {
    if (isNew) refuseShortSecret({ length })
    return
  }
  const source = findSource()
  if (source === null) throw wrongSecret(`The secret of this data is missing: ${REMEDY}`)
  const mac = readMac()
  if (mac === null || isOf(mac)) return
  throw wrongSecret(`This data was sealed with another secret than ${source}: ${REMEDY}`)
}

/** Nothing that needs the secret can be said, which is what `doctor` then finds. */
const wrongSecret = (message: string) => conflict(message).with({ metadata: { check: 'secret' } })

/** Throws 400 for a secret that is too short for new data. */
export function refuseShortSecret({ length }: Pick<GivenSecret, 'length'>): void {
  if (length !== null && length < SHORTEST)
    throw invalid(`GATEWAY_SECRET: expected at least ${SHORTEST} characters, found ${length}`)
}

const REMEDY =
  'set GATEWAY_SECRET, or bring back secret.key, as it was when the data was made (servers of one ' +
  'database share it); gateway doctor --reseal replaces a secret'
