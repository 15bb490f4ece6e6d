import { type Builtin, matchWhole } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// Letters with accents count as letters. Letters of other scripts do not, or words before an
// address would become part of it.
const LETTER = '\\w\\x{C0}-\\x{24F}'

/** Finds e-mail addresses as people write them (RFC 5321 and 6531, without quoted local parts). */
export const email: Builtin = {
  label: LABELS.email,
  name: 'Email address',
  detectors: [
    {
      pattern: `[${LETTER}.%+'-]+@(?:[${LETTER}-]+\\.)+[${LETTER}-]*[A-Za-z\\x{C0}-\\x{24F}]\\b`,
      findSpans: text => matchWhole(text, isAddress(text)),
      anchor: /@/g,
    },
  ],
}

// RFC 5321, 4.5.3.1: 64 octets before the @, 255 after it. The last label begins with a letter:
// `pkg@1.2.x` is a version.
function isAddress(text: string): boolean {
  if (text.length > LONGEST_LOCAL + LONGEST_DOMAIN) return false
  const at = text.indexOf('@')
  const labels = text.slice(at + 1).split('.')
  return (
    at > 0 &&
    at <= LONGEST_LOCAL &&
    text.length - at <= LONGEST_DOMAIN &&
    !text.startsWith('.') &&
    labels.every(isLabel) &&
    isTopLevel(labels.at(-1) ?? '')
  )
}

const LONGEST_LOCAL = 64
/** With the @. */
const LONGEST_DOMAIN = 256

const isLabel = (label: string) =>
  label.length <= 63 && !label.startsWith('-') && !label.endsWith('-')
const isTopLevel = (label: string) => label.length >= 2 && /^[^\d_-]/.test(label)
