import isIP from 'validator/es/lib/isIP.js'
import type { Span } from '../patterns/machine.ts'
import { type Builtin, matchWhole } from './builtin.ts'
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
  detectors: [
    {
      pattern: `(?:${NUMBERED}[. ]{0,2})?\\b\\d+(?:\\.\\d+){3,}\\b`,
      findSpans: text => matchWhole(text, text.length <= 15 && isIP(text, 4)),
      anchor: /\d\.\d{1,3}\.\d{1,3}\.\d/g,
    },
    {
      pattern: '[\\w.]*:[\\w.]*:[\\w:.]*',
      findSpans: findIpv6,
      anchor: /:[\da-fA-F]{0,4}:/g,
    },
  ],
}

// RFC 4291, 2.2, allows 45 characters at most. A digit is required: `A::B` is an address too, but
// rarely meant as one.
function findIpv6(text: string): Span[] {
  const labelLength =
    /^[a-z_.]*[g-z_.][a-z_.]*:(?!:)/i.exec(text.slice(0, LONGEST_LABEL))?.[0].length ?? 0
  const end = text.length - (/[^:]([.:])$/.test(text.slice(-2)) ? 1 : 0)
  const address = text.slice(labelLength, end)
  return address.length <= 45 && /\d/.test(address) && isIP(address, 6)
    ? [{ start: labelLength, end }]
    : []
}

const LONGEST_LABEL = 40
