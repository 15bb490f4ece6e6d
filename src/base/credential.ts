import { isObject, isRawJson } from './json.ts'

/** Where a credential is in a text, in UTF-16 units. */
export interface CredentialSpan {
  start: number
  end: number
}

/**
 * Finds what looks like a credential, by its value: a vendor's fixed form, what follows `Bearer` or
 * `Basic`, the password of a URL, and a long random run of letters and digits. Takes time linear
 * in the length. The gateway's own ids and fingerprints are none.
 */
export function findCredentials(text: string): CredentialSpan[] {
  const spans = [...text.matchAll(CREDENTIAL)].flatMap(match => {
    const groups = match.groups ?? {}
    const value = groups.password ?? groups.token ?? match[0]
    if (groups.own !== undefined || !isCredential(groups, value)) return []
    const end = match.index + match[0].length - (groups.password === undefined ? 0 : 1)
    return { start: end - value.length, end }
  })
  return spans
}

/** Shows no secret shorter than this: its ends would be most of it. */
const SHORTEST_SHOWN = 12

/** Masks a credential: its first and last four characters, as the public service does. */
export const maskCredential = (text: string): string =>
  text.length < SHORTEST_SHOWN ? '...' : `${text.slice(0, 4)}...${text.slice(-4)}`

/** Replaces what looks like a credential by `[secret]`. */
export function hideCredentials(text: string): string {
  let shown = ''
  let from = 0
  for (const { start, end } of findCredentials(text)) {
    shown += `${text.slice(from, start)}[secret]`
    from = end
  }
  return shown + text.slice(from)
}

/** Hashes a secret: lowercase hex SHA-256. */
export const hashSecret = (plaintext: string): string =>
  Bun.CryptoHasher.hash('sha256', plaintext, 'hex')

/**
 * Appends a checksum of eight digits to a secret, so that a secret scanner can tell it from a
 * look-alike.
 */
export const addChecksum = (secret: string): string =>
  secret + Bun.hash.crc32(secret).toString(16).padStart(8, '0')

/** Masks a secret to a label by which it can be recognized. */
export const maskSecret = (plaintext: string) => `${plaintext.slice(0, 9)}...${plaintext.slice(-3)}`

// Every branch begins where the one before it ended, and none can be matched in two ways.
const CREDENTIAL = new RegExp(
  [
    '(?<own>hmac-sha256:[0-9a-f]{64}|\\buser_[0-9a-f]{32}\\b|' +
      '\\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\b)',
    '(?<=://[^\\s:@/]{0,100}:)(?<password>[^\\s:@/]+)@',
    '\\b(?:Bearer|bearer|BEARER|Basic|basic|BASIC)[ \\t]{1,4}(?<token>[A-Za-z0-9+/=._~-]{8,})',
    '(?<form>\\b(?:sk|pk|rk|xox[a-z]|xapp|gh[opsur]|github_pat|glpat|hf|gsk|npm|pypi|dop_v1|key|' +
      'shpat|whsec|AKIA|ASIA|AIza|SG|eyJ|r8|tvly|pplx|nvapi|xai|lin_api)[-_.]?' +
      '[A-Za-z0-9_-]{14,}(?:\\.[A-Za-z0-9_-]{14,}){0,4}|\\bya29\\.[A-Za-z0-9_.-]{14,})',
    '(?<random>[A-Za-z0-9+]{20,}={0,2})',
  ].join('|'),
  'g',
)

/** Fewer bits a character than this are words; a key of 20 hexadecimal digits has more. */
const RANDOM_BITS = 2.9

function isCredential(groups: Record<string, string | undefined>, value: string): boolean {
  if (groups.password !== undefined) return true
  if (groups.token !== undefined) return /[0-9=]/.test(value)
  if (!/[A-Za-z]/.test(value)) return false
  return /[0-9]/.test(value) ? computeEntropy(value) >= RANDOM_BITS : areRandomLetters(value)
}

/** One key in 300 has letters alone. */
const SHORTEST_OF_LETTERS = 32
/**
 * Words repeat letters, and have about three quarters of the bits that so many letters could have.
 * Between these shares the capitals decide: a name in code has few next to each other.
 */
const [WORDS_SHARE, RANDOM_SHARE] = [0.81, 0.85]
const CAPITALS_SHARE = 0.1

function areRandomLetters(value: string): boolean {
  if (value.length < SHORTEST_OF_LETTERS || !/[a-z]/.test(value)) return false
  const share = computeEntropy(value) / Math.log2(Math.min(value.length, LETTERS))
  const capitals = value.match(/[A-Z](?=[A-Z])/g)?.length ?? 0
  return (
    capitals > 0 &&
    (share >= RANDOM_SHARE || (share >= WORDS_SHARE && capitals >= CAPITALS_SHARE * value.length))
  )
}

/** The letters of both cases. */
const LETTERS = 52

/** Computes Shannon's entropy of the characters, in bits each. */
function computeEntropy(value: string): number {
  const counts = new Map<string, number>()
  for (const character of value) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const count of counts.values())
    bits -= (count / value.length) * Math.log2(count / value.length)
  return bits
}

/** The names of secrets in a record. Any value of a header may be a secret too. */
const SECRET = new RegExp(
  '^(authorization|api[_-]?key|((access|auth|refresh|session)_)?token|(client_)?secret|' +
    'secret_access_key|private_key|password)$',
  'i',
)
const SECRETS = 'headers'

/** What the gateway itself calls a hash: it is no secret. */
const HASH_NAME = /^(?:hash|.*_hash(?:es)?)$/
const HASH = /^[0-9a-f]{64}$/

/** What stands for a text that is or contains a credential. */
interface CredentialReplacement {
  /** For a text that is one credential, by its name. */
  whole(text: string): unknown
  /** For a text that contains credentials, by their value. */
  partial(text: string, spans: CredentialSpan[]): unknown
}

/** Copies a record and replaces every text that is or contains a credential, at any depth. */
export function replaceCredentials(value: unknown, replacement: CredentialReplacement): unknown {
  return replaceValue(value, '', '', replacement)
}

function replaceValue(
  value: unknown,
  name: string,
  parent: string,
  replacement: CredentialReplacement,
): unknown {
  if (typeof value === 'string') return replaceText(value, name, parent, replacement)
  if (Array.isArray(value)) return value.map(item => replaceValue(item, name, parent, replacement))
  if (!isObject(value) || isRawJson(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([member, one]) => [
      member,
      replaceValue(one, member, name, replacement),
    ]),
  )
}

function replaceText(
  text: string,
  name: string,
  parent: string,
  { whole, partial }: CredentialReplacement,
): unknown {
  if (parent === SECRETS || SECRET.test(name)) return whole(text)
  if (HASH.test(text) && HASH_NAME.test(name)) return text
  const spans = findCredentials(text)
  return spans.length === 0 ? text : partial(text, spans)
}
