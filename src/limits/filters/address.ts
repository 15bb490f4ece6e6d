import { seekBlank } from './anchors.ts'
import { areDigits, type Builtin, isDigit, toAlphabet } from './builtin.ts'
import { LABELS } from './labels.data.ts'

/** The last words of English street names, with the usual abbreviations. */
const STREET_TYPES =
  'Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square' +
  '|Sq|Terrace|Ter|Way|Parkway|Pkwy|Circle|Cir|Highway|Hwy|Close|Crescent|Cres|Gardens' +
  '|Mews|Row|Alley'

/** The two letters of the states and territories of the United States (USPS Publication 28). */
const STATES =
  'A[KLRZ]|C[AOT]|D[CE]|FL|G[AU]|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]' +
  '|P[AR]|RI|S[CD]|T[NX]|UT|V[AIT]|W[AIVY]'

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
    { pattern: ENGLISH, anchor: seekBlank(measureNumber), before: toAlphabet(/\d/, false) },
    { pattern: `${GERMAN}|${FRENCH}`, anchor: seekBlank(measureStreet) },
    {
      pattern: `\\b(?:P\\.? ?O\\.? ?Box|Postfach|PO Box) \\d{1,6}\\b|\\b${ZIP}|\\b${UK_POSTCODE}`,
      anchor: seekBlank(measureCode),
    },
  ],
}

/** Measures a house number before a blank that a name follows, or an ordinal number. */
function measureNumber(text: string, blank: number): number {
  const next = text.charCodeAt(blank + 1)
  if (next < 0x80 ? !isCapital(next) && !isOrdinal(text, blank + 1) : false) return 0
  const end = text.charCodeAt(blank - 1) === COMMA ? blank - 1 : blank
  const last = isAsciiLetter(text.charCodeAt(end - 1)) ? end - 1 : end
  return isDigit(text.charCodeAt(last - 1)) ? blank - last + 1 : 0
}

/** Tells whether up to three digits stand here, and the first letter of `st`, `nd`, `rd` or `th`. */
function isOrdinal(text: string, from: number): boolean {
  let at = from
  while (at < from + 3 && isDigit(text.charCodeAt(at))) at += 1
  return at > from && ORDINALS.includes(text.charAt(at))
}

/** Measures the last letter of a German street before its number, or a number before a French one. */
function measureStreet(text: string, blank: number): number {
  const last = text.charCodeAt(blank - 1)
  const next = text.charCodeAt(blank + 1)
  if (isDigit(next)) return last === DOT || isSmall(last) ? 1 : 0
  if (!isSmall(next)) return 0
  const end = last === COMMA ? blank - 1 : blank
  return isDigit(text.charCodeAt(end - 1)) ? blank - end + 1 : 0
}

/** Measures what stands before the blank in a box, a state with its ZIP, or a British postcode. */
function measureCode(text: string, blank: number): number {
  if (!isDigit(text.charCodeAt(blank + 1))) return 0
  const last = text.charCodeAt(blank - 1)
  if (last === SMALL_X || last === SMALL_H) return 1
  if (isCapital(text.charCodeAt(blank + 2)) && isCapital(text.charCodeAt(blank + 3))) {
    if (isDigit(text.charCodeAt(blank - 2)) && (isCapital(last) || isDigit(last))) return 2
    if (isDigit(last)) return 1
  }
  if (!areDigits(text, blank + 1, 5)) return 0
  if (isCapital(last)) return 1
  return last === COMMA && isCapital(text.charCodeAt(blank - 2)) ? 2 : 0
}

const [COMMA, DOT, SMALL_H, SMALL_X] = [0x2c, 0x2e, 0x68, 0x78]
const ORDINALS = 'snrt'

const isCapital = (code: number): boolean => code >= 0x41 && code <= 0x5a
const isSmall = (code: number): boolean => code >= 0x61 && code <= 0x7a
const isAsciiLetter = (code: number): boolean => isCapital(code) || isSmall(code)
