import { describe, expect, test } from 'bun:test'
import { cleanReason } from '../../src/network/clean-reason.ts'
import type { Provider } from '../../src/resources/providers/provider.ts'
import { openProvider } from '../../src/resources/providers.ts'
import { translateFailure } from '../../src/translation/protocols/failure.ts'
import { protocolNames } from '../../src/translation/protocols/registry.ts'

/** Keys of which only a part has the form of one: Z.ai's, a token of Google's, a signature. */
const SPLIT_KEYS = {
  zai: '0a1b2c3d4e5f60718293a4b5c6d7e8f9.Hq7Wz2Lm9Xt4Vb6N',
  'sk-': 'sk-Ab3dEf6hIj9kLmN0.Pq~Rs!Tu',
  slashes: 'abcdefgh12345678ijklMNOP/qrs/tuv+wx/yzAB',
  signs: 'a-key-of/words&"signs%',
}

function openKeyed(api_key: string): Provider {
  const settings = { api_key, base_url: 'http://acme.test/v1', protocol: 'openai-chat' }
  const opened = openProvider('acme', settings, protocolNames)
  if (Array.isArray(opened)) throw new Error(opened[0]?.expected)
  return opened
}

function readReason(message: string, key: string): string {
  const error = translateFailure(400, { code: 'bad', message })
  return cleanReason(error, openKeyed(key)).reason?.message ?? ''
}

describe.each(Object.entries(SPLIT_KEYS))('a key of the form %s', (_, key) => {
  const base64 = Buffer.from(key).toString('base64')
  test.each([
    ['as it is', key],
    ['in a URL', encodeURIComponent(key)],
    ['in JSON', JSON.stringify(key).slice(1, -1)],
    ['in base64', base64],
    ['in base64 for URLs', Buffer.from(key).toString('base64url')],
  ])('is not shown %s', (_, shown) => {
    expect(readReason(`The header ${shown} is wrong`, key)).toMatch(
      /^The header \[secret\]=* is wrong$/,
    )
  })

  test('is not shown in part where the message is cut', () => {
    for (let blanks = 3_900; blanks < 4_000; blanks += 3) {
      const shown = readReason(`Wrong:${' '.repeat(blanks)}${key}`, key)
      expect(shown.replace('[secret]', '').length).toBeLessThan(10)
    }
  })
})

test('a credential of another form goes with all of its parts', () => {
  const token = `eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.ab-cd_efGh12-ijKl_mnOp34`
  const google = 'ya29.c.c0AbC-dEf_1gH2iJ3kL4mN-oP_qR5sT6uV7'
  expect(readReason(`${token} and ${google}`, 'another-key')).toBe('[secret] and [secret]')
})
