import { STATES, STREET_TYPES } from './address.data.ts'
import type { Builtin } from './builtin.ts'
import { LABELS } from './labels.data.ts'

const NAME = "(?:\\p{Lu}[\\p{L}'’.-]*|\\d{1,3}(?:st|nd|rd|th))"
const CITY = "\\p{Lu}[\\p{L}'’.-]*(?: \\p{Lu}[\\p{L}'’.-]*){0,2}"
const FLAT = '(?:,? (?:Apt|Apartment|Suite|Ste|Unit|Floor|Fl|Flat|Room|#)\\.? ?[A-Za-z0-9-]{1,6})?'
const ZIP = `(?:${STATES}),? \\d{5}(?:-\\d{4})?\\b`
const UK_POSTCODE = '[A-Z]{1,2}\\d[A-Z\\d]? \\d[ABD-HJLNP-UW-Z]{2}\\b'

const ENGLISH =
  '\\b\\d{1,5}[A-Za-z]?,? (?:[NSEW]\\.? |North |South |East |West )?' +
  `${NAME}(?: ${NAME}){0,2} (?:${STREET_TYPES})\\b\\.?${FLAT}` +
  `(?:,? ${CITY})?(?:,? (?:${ZIP}|${UK_POSTCODE}))?`
const GERMAN_CITY = '(?:,? (?:D-)?\\d{5} \\p{Lu}\\p{L}+)?'
const GERMAN =
  '\\p{Lu}[\\p{L}.-]*(?:straße|strasse|str\\.|gasse|allee|platz|weg|damm|ufer| Straße' +
  `| Strasse| Str\\.| Allee| Platz| Weg| Gasse) \\d{1,4} ?[a-z]?\\b${GERMAN_CITY}`
const FRENCH =
  '\\b\\d{1,4}(?: bis| ter)?,? (?:rue|avenue|boulevard|place|chemin|impasse|allée|quai' +
  "|cours) (?:de la |de l['’]|du |des |de |d['’])?" +
  "\\p{Lu}[\\p{L}'’-]*(?: \\p{Lu}[\\p{L}'’-]*){0,3}(?:,? \\d{5} \\p{Lu}[\\p{L}'’-]+)?"

/**
 * Finds postal addresses by a rule of thumb, not by a model: a number and a street as written in
 * English, German and French, post boxes, states with their ZIP, postcodes of the United Kingdom. A
 * city or a country alone is not an address.
 */
export const address: Builtin = {
  label: LABELS.address,
  name: 'Address',
  blockedMessage: 'Blocked PII detected: LOCATION',
  detectors: [
    { pattern: ENGLISH, anchor: /\d[A-Za-z]?,? [\p{Lu}\d]/gu },
    { pattern: `${GERMAN}|${FRENCH}`, anchor: /[a-z.\u00df] \d|\d,? [a-z]/g },
    {
      pattern: `\\b(?:P\\.? ?O\\.? ?Box|Postfach|PO Box) \\d{1,6}\\b|\\b${ZIP}|\\b${UK_POSTCODE}`,
      anchor: /[xh] \d|[A-Z],? \d{5}|\d[A-Z\d]? \d[A-Z]{2}/g,
    },
  ],
}
