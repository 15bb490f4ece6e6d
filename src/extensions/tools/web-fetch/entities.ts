import { ENTITIES } from './entities.data.ts'

let named: Map<string, string> | undefined

/** Replaces the characters that a text of HTML names: `&amp;`, `&#8364;`, `&#x20ac;`. */
export const decodeEntities = (text: string): string =>
  text.includes('&') ? text.replace(ENTITY, decodeEntity) : text

const ENTITY = /&(?:#(?:[xX][0-9a-fA-F]{1,6}|[0-9]{1,7})|[A-Za-z][A-Za-z0-9]{1,9});?/g

function decodeEntity(entity: string): string {
  const name = entity.slice(1).replace(/;$/, '')
  if (name.startsWith('#')) return decodeNumber(name.slice(1))
  named ??= new Map(
    ENTITIES.split(' ').map(pair => {
      const [key = '', code = ''] = pair.split(':')
      return [key, String.fromCodePoint(Number.parseInt(code, 16))]
    }),
  )
  return (entity.endsWith(';') ? named.get(name) : undefined) ?? entity
}

function decodeNumber(digits: string): string {
  const isHex = /^x/i.test(digits)
  const code = Number.parseInt(isHex ? digits.slice(1) : digits, isHex ? 16 : 10)
  const isCharacter = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
  return isCharacter ? String.fromCodePoint(code) : '\uFFFD'
}
