import isIP from 'validator/es/lib/isIP.js'
import type { Span } from '../patterns/machine.ts'
import { type Builtin, wholeIf } from './builtin.ts'
import { LABELS } from './labels.data.ts'

// Words before other things with four numbers, which are no addresses.
const NUMBERED =
  '(?i:\\b(?:sections?|versions?|chapters?|release|build|table|figure|kapitel|abschnitt|v))'

/** Finds addresses of the internet protocol, versions 4 and 6. */
export const ipAddress: Builtin = {
  label: LABELS['ip-address'],
  name: 'IP address',
  // Both patterns match whole words, so that nothing is found inside a longer number, a time or a
  // C++ name.
  patterns: [
    {
      pattern: `(?:${NUMBERED}[. ]{0,2})?\\b\\d+(?:\\.\\d+){3,}\\b`,
      spans: found => wholeIf(found, found.length <= 15 && isIP(found, 4)),
    },
    { pattern: '[\\w.]*:[\\w.]*:[\\w:.]*', spans: versionSix },
  ],
}

// RFC 4291, 2.2, allows 45 characters at most. A digit is required: `A::B` is an address too, but
// rarely meant as one.
function versionSix(found: string): Span[] {
  const label =
    /^[a-z_.]*[g-z_.][a-z_.]*:(?!:)/i.exec(found.slice(0, LONGEST_LABEL))?.[0].length ?? 0
  const end = found.length - (/[^:]([.:])$/.test(found.slice(-2)) ? 1 : 0)
  const address = found.slice(label, end)
  return address.length <= 45 && /\d/.test(address) && isIP(address, 6)
    ? [{ start: label, end }]
    : []
}

const LONGEST_LABEL = 40
