import { type Builtin, wholeIf } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// Letters with accents count as letters; of other scripts they would take the words before an address for a part of it.
const LETTER = '\\w\\x{C0}-\\x{24F}'

/** E-mail addresses as people write them (RFC 5321 and 6531, without quoted local parts). */
export const email: Builtin = {
  label: LABELS.email,
  name: 'Email address',
  patterns: [
    {
      pattern: `[${LETTER}.%+'-]+@(?:[${LETTER}-]+\\.)+[${LETTER}-]*[A-Za-z\\x{C0}-\\x{24F}]\\b`,
      spans: found => wholeIf(found, isAddress(found)),
    },
  ],
}

// RFC 5321, 4.5.3.1: 64 octets before the @, 255 behind it. The last label has a letter first: `pkg@1.2.x` is a version.
function isAddress(found: string): boolean {
  const at = found.indexOf('@')
  const labels = found.slice(at + 1).split('.')
  return (
    at > 0 &&
    at <= 64 &&
    found.length - at <= 256 &&
    !found.startsWith('.') &&
    labels.every(isLabel) &&
    isTopLevel(labels.at(-1) ?? '')
  )
}

const isLabel = (label: string) =>
  label.length <= 63 && !label.startsWith('-') && !label.endsWith('-')
const isTopLevel = (label: string) => label.length >= 2 && /^[^\d_-]/.test(label)
