import { seekCode } from './anchors.ts'
import { type Builtin, isDigit } from './builtin.ts'
import { LABELS } from './labels.data.ts'

const [AT, DOT, DASH, UNDERSCORE] = [0x40, 0x2e, 0x2d, 0x5f]

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
      accepts: isAddress,
      anchor: seekCode(AT),
    },
  ],
}

// RFC 5321, 4.5.3.1: 64 octets before the @, 255 after it. The last label begins with a letter:
// `pkg@1.2.x` is a version.
function isAddress(text: string, start: number, end: number): boolean {
  if (end - start > LONGEST_LOCAL + LONGEST_DOMAIN || text.charCodeAt(start) === DOT) return false
  let at = start
  while (at < end && text.charCodeAt(at) !== AT) at += 1
  if (at === start || at === end || at - start > LONGEST_LOCAL || end - at > LONGEST_DOMAIN)
    return false
  let label = at + 1
  for (let i = label; i < end; i++) {
    if (text.charCodeAt(i) !== DOT) continue
    if (!isLabel(text, label, i)) return false
    label = i + 1
  }
  return isLabel(text, label, end) && isTopLevel(text, label, end)
}

const LONGEST_LOCAL = 64
/** With the @. */
const LONGEST_DOMAIN = 256

const isLabel = (text: string, start: number, end: number): boolean =>
  end - start <= 63 && text.charCodeAt(start) !== DASH && text.charCodeAt(end - 1) !== DASH

function isTopLevel(text: string, start: number, end: number): boolean {
  const first = text.charCodeAt(start)
  return end - start >= 2 && !isDigit(first) && first !== UNDERSCORE && first !== DASH
}
