import type { Span } from '../patterns/machine.ts'
import { seekExpression } from './anchors.ts'
import { type Builtin, toAlphabet } from './builtin.ts'
import { LABELS } from './labels.data.ts'

/**
 * The forms of keys whose vendors made them recognisable, so that leaks can be found. From each
 * vendor's own documentation, or from what its secret scanning partners publish; RE2's syntax. None
 * of them needs context to be recognised.
 */
export const SECRET_FORMS: Record<string, string> = {
  gateway: 'gw-v1-[0-9a-f]{32,64}',
  openrouter: 'sk-or-v1-[0-9a-f]{32,64}',
  openai: 'sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]*T3BlbkFJ[A-Za-z0-9_-]+',
  openaiProject: 'sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,}',
  openaiOld: 'sk-[A-Za-z0-9]{40,}',
  anthropic: 'sk-ant-[a-z0-9]{2,10}-[A-Za-z0-9_-]{32,}',
  awsKeyId: '(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}',
  awsBearer: 'ABSK[A-Za-z0-9+/]{60,}={0,2}',
  github: 'gh[pousr]_[A-Za-z0-9]{36,}',
  githubFineGrained: 'github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{40,}',
  gitlab: 'gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent)-[A-Za-z0-9_.-]{20,}',
  slack: 'xox[abeoprs]-[A-Za-z0-9-]{10,}',
  slackApp: 'xapp-\\d-[A-Z0-9]+-\\d+-[a-f0-9]{32,}',
  slackWebhook: 'hooks\\.slack\\.com/(?:services|workflows)/[A-Za-z0-9+/]{40,}',
  stripe: '(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}',
  stripeWebhook: 'whsec_[A-Za-z0-9+/]{24,}={0,2}',
  google: 'AIza[A-Za-z0-9_-]{35}',
  googleOauth: 'ya29\\.[A-Za-z0-9_-]{20,}',
  googleClientSecret: 'GOCSPX-[A-Za-z0-9_-]{24,}',
  azureStorage: 'AccountKey=[A-Za-z0-9+/]{80,}={0,2}',
  huggingFace: 'hf_[A-Za-z0-9]{30,}',
  groq: 'gsk_[A-Za-z0-9]{40,}',
  xai: 'xai-[A-Za-z0-9]{60,}',
  perplexity: 'pplx-[A-Za-z0-9]{40,}',
  replicate: 'r8_[A-Za-z0-9]{30,}',
  npm: 'npm_[A-Za-z0-9]{36}',
  pypi: 'pypi-AgE[A-Za-z0-9_-]{50,}',
  sendgrid: 'SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{32,}',
  twilio: 'SK[0-9a-f]{32}',
  telegram: '\\d{8,10}:AA[A-Za-z0-9_-]{33}',
  digitalOcean: 'do[opr]_v1_[a-f0-9]{64}',
  shopify: 'shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}',
  databricks: 'dapi[a-f0-9]{32}',
  vault: 'hv[sbr]\\.[A-Za-z0-9_-]{24,}',
  age: 'AGE-SECRET-KEY-1[A-Z0-9]{58}',
  jwt: 'eyJ[A-Za-z0-9_-]{8,}\\.eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}',
}

/** How the forms begin: each match of one of them begins with a match of this. */
const SECRET_BEGINNINGS =
  /\b(?:gw-v1-|sk-|[sr]k_|A(?:[KS]IA|BIA|CCA|BSK|Iza|ccountKey=|GE-SEC)|g(?:h[pousr]_|ithub_pat_|l[a-z]{2,5}-|sk_)|x(?:ox|app-|ai-)|h(?:ooks\.slack|f_|v[sbr]\.)|whsec_|ya29\.|GOCSPX-|pplx-|r8_|npm_|pypi-AgE|SG\.|SK[0-9a-f]{2}|\d{8,10}:AA|do[opr]_v1_|shp[acps][ats]_|dapi[a-f0-9]|eyJ)/g

/** Names that a secret is assigned to: `password=…`, `"api_key": "…"`. */
const SECRET_NAMES = [
  'pass(?:word|wd|phrase)',
  'pwd',
  'secret(?:[_-]?key)?',
  '(?:api|access|account|auth|client|encryption|private|signing|service' +
    '|master)[_-]?(?:key|token|secret)',
  '(?:bearer|refresh|session|id)[_-]?token',
  'token',
  'credentials?',
]

// The armour of PEM and of PGP (RFC 7468, RFC 9580). If its end is missing, it extends as far as it
// looks like a key.
const BODY = '[A-Za-z0-9+/=\\s:,\\\\.()-]'
const PRIVATE_KEY =
  `-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?:${BODY}*?-----END [A-Z0-9 ]*PRIVATE KEY` +
  '[A-Z ]*-----|[A-Za-z0-9+/=\\s\\\\]*)'
// A password in a URL, as in `postgres://user:password@host`.
const IN_ADDRESS = '[a-z][a-z0-9+.-]+://[^\\s:@/"\']+:[^\\s:@/"\']{3,}@'
const ASSIGNED =
  `(?i)(?:${SECRET_NAMES.join('|')})\\\\?["']?\\s*(?:=>|:=|=` +
  `|:)\\s*\\\\?["']?[^\\s"'\\\\,;)\\]}<>]{8,}`

const NOTHING_BEFORE = toAlphabet(/$^/, false)

/**
 * Finds keys, tokens and passwords: those of a vendor's fixed form, and those assigned to a name
 * such as `password`.
 */
export const secrets: Builtin = {
  label: LABELS.secrets,
  name: 'Secret or API key',
  detectors: [
    {
      pattern: `\\b(?:${Object.values(SECRET_FORMS).join('|')})`,
      anchor: seekExpression(SECRET_BEGINNINGS),
      before: NOTHING_BEFORE,
    },
    { pattern: PRIVATE_KEY, anchor: seekExpression(/-----BEGIN /g), before: NOTHING_BEFORE },
    {
      pattern: IN_ADDRESS,
      findSpans: findUrlPassword,
      anchor: seekExpression(/:\/\//g),
      before: toAlphabet(/[a-z0-9+.-]/, false),
    },
    {
      pattern: ASSIGNED,
      findSpans: findAssignedSecret,
      anchor: seekAssignment,
      before: toAlphabet(/[\w\s"'\\-]/, true),
    },
  ],
}

/** Finds a sign of assignment before something that may be a value. */
function seekAssignment(text: string, from: number, to: number): number {
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i)
    if ((code === COLON || code === EQUALS) && mayBeAssigned(text, i)) return i
  }
  return -1
}

const [COLON, EQUALS, GREATER] = [0x3a, 0x3d, 0x3e]
const SHORTEST_VALUE = 8
/** What follows more blanks than these is not looked at. */
const MOST_BLANKS = 64

/** Tells whether a value follows the sign of assignment at this place, or many blanks do. */
function mayBeAssigned(text: string, at: number): boolean {
  const next = text.charCodeAt(at + 1)
  if (text.charCodeAt(at) === COLON && next === EQUALS) return true
  let start = next === GREATER ? at + 2 : at + 1
  for (let left = MOST_BLANKS; OUTSIDE[text.charCodeAt(start)] === IS_BLANK; start++)
    if (left-- === 0) return true
  // A backslash may stand before the value, and then a quote.
  if (OUTSIDE[text.charCodeAt(start)] === IS_QUOTE) start += 1
  if (OUTSIDE[text.charCodeAt(start)] === IS_QUOTE) start += 1
  for (let i = start; i < start + SHORTEST_VALUE; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x80 ? OUTSIDE[code] !== 0 : Number.isNaN(code)) return false
  }
  return true
}

/** What is no part of a value: blanks, what stands before one, and other signs. */
const [IS_BLANK, IS_QUOTE, IS_SIGN] = [1, 2, 3]
const OUTSIDE = new Uint8Array(128)
for (const [kind, signs] of [
  [IS_BLANK, ' \t\n\f\r'],
  [IS_QUOTE, '\\"\''],
  [IS_SIGN, ',;)]}<>'],
] as const)
  for (const sign of signs) OUTSIDE[sign.charCodeAt(0)] = kind

function findUrlPassword(text: string): Span[] {
  const start = text.lastIndexOf(':') + 1
  return isPlaceholder(text.slice(start, -1)) ? [] : [{ start, end: text.length - 1 }]
}

/**
 * Finds an assigned value if it looks random and not like a word: `password=changeme` reveals
 * nothing.
 */
function findAssignedSecret(text: string): Span[] {
  const start = findValueStart(text)
  const value = text.slice(start, start + LONGEST_VALUE)
  return isPlaceholder(value) || !isLikelyRandom(value) ? [] : [{ start, end: text.length }]
}

const LONGEST_VALUE = 512

/** Finds the offset after the last character of an assignment that is not part of the value. */
function findValueStart(text: string): number {
  BEFORE_VALUE.lastIndex = 0
  return BEFORE_VALUE.test(text) ? BEFORE_VALUE.lastIndex : 0
}

const BEFORE_VALUE = /[\w-]+\\?["']?\s*(?:=>|:=|=|:)\s*\\?["']?/y

const PLACEHOLDER = new RegExp(
  '^(?:\\$|%|\\{|<|\\*{3}|\\.{3}|x{4}|your|my[-_]|example|change|placeholder' +
    '|process\\.|os\\.|env[.[(]|self\\.|this\\.|get|config)',
  'i',
)

const isPlaceholder = (value: string): boolean => PLACEHOLDER.test(value)

// Words of this length have about two and a half bits a letter, keys of 16 characters more than
// three. A secret has both digits and letters.
const RANDOM_BITS = 2.75

const isLikelyRandom = (value: string): boolean =>
  /[0-9]/.test(value) && /[A-Za-z]/.test(value) && computeEntropy(value) >= RANDOM_BITS

/** Computes Shannon's entropy of the value's characters, in bits per character. */
function computeEntropy(value: string): number {
  if (IS_ASCII.test(value)) return computeAsciiEntropy(value)
  const counts = new Map<string, number>()
  for (const character of value) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const count of counts.values())
    bits -= (count / value.length) * Math.log2(count / value.length)
  return bits
}

const IS_ASCII = /^[\0-\x7f]*$/
/** What characters add that occur so often in a value of this length: zero is not yet known. */
const LONGEST_KNOWN = 63
const BITS = new Float64Array((LONGEST_KNOWN + 1) ** 2)

function getBits(count: number, length: number): number {
  if (length > LONGEST_KNOWN) return computeBits(count, length)
  const place = length * (LONGEST_KNOWN + 1) + count
  if (BITS[place] === 0) BITS[place] = computeBits(count, length)
  return BITS[place] as number
}

const computeBits = (count: number, length: number): number =>
  (count / length) * Math.log2(count / length)

/** How often each character occurs in the value at hand: all are zero between two of them. */
const COUNTS = new Uint16Array(128)

/** Computes the same, adding in the same order. */
function computeAsciiEntropy(value: string): number {
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    COUNTS[code] = (COUNTS[code] as number) + 1
  }
  let bits = 0
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    const count = COUNTS[code] as number
    if (count > 0) bits -= getBits(count, value.length)
    COUNTS[code] = 0
  }
  return bits
}
