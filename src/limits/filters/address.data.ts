/** The last words of English street names, with the usual abbreviations. */
export const STREET_TYPES =
  'Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square' +
  '|Sq|Terrace|Ter|Way|Parkway|Pkwy|Circle|Cir|Highway|Hwy|Close|Crescent|Cres|Gardens' +
  '|Mews|Row|Alley'

/** The two letters of the states and territories of the United States (USPS Publication 28). */
export const STATES =
  'A[KLRZ]|C[AOT]|D[CE]|FL|G[AU]|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]' +
  '|P[AR]|RI|S[CD]|T[NX]|UT|V[AIT]|W[AIVY]'
