const spell = (word: string, toCode: (code: number) => string) =>
  [...word].map(letter => toCode(letter.charCodeAt(0))).join('')
const toHex = (code: number, digits: number) => code.toString(16).padStart(digits, '0')

const LOOK_ALIKES: Record<string, string> = { a: 'а', o: 'о', e: 'е', c: 'с', p: 'р' }

/** How somebody may write a word of ASCII so that its receiver still reads it. */
export const ENCODINGS: Record<string, (word: string) => string> = {
  plain: word => word,
  'percent escapes': word => spell(word, code => `%${toHex(code, 2)}`),
  'one percent escape': word =>
    `${word.slice(0, 1)}%${toHex(word.charCodeAt(1), 2)}${word.slice(2)}`,
  'percent escapes of percent escapes': word => spell(word, code => `%25${toHex(code, 2)}`),
  'decimal references': word => spell(word, code => `&#${code};`),
  'hexadecimal references': word => spell(word, code => `&#x${toHex(code, 2)};`),
  'references of references': word => spell(word, code => `&amp;#${code};`),
  'escapes of JSON': word => spell(word, code => `\\u${toHex(code, 4)}`),
  'escapes of JSON within JSON': word => spell(word, code => `\\\\u${toHex(code, 4)}`),
  tags: word => spell(word, code => String.fromCodePoint(0xe0000 + code)),
  'full-width letters': word =>
    spell(word, code => String.fromCharCode(code === 32 ? 0x3000 : code + 0xfee0)),
  'letters of another alphabet': word =>
    word.replace(/[aoecp]/g, letter => LOOK_ALIKES[letter] ?? letter),
  'invisible characters': word => [...word].join('\u200b'),
}
