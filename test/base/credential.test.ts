import { describe, expect, test } from 'bun:test'
import { findCredentials, replaceCredentials } from '../../src/base/credential.ts'
import { readThreadCpu } from '../support/cpu.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'

const find = (text: string) => findCredentials(text).map(({ start, end }) => text.slice(start, end))

describe('findCredentials', () => {
  test.each([
    ['sk-proj-Ab3dEf6hIj9kLmN0', 'sk-proj-Ab3dEf6hIj9kLmN0'],
    [
      'use ghp_16C7e42F292c6912E7710c838347Ae178B4a now',
      'ghp_16C7e42F292c6912E7710c838347Ae178B4a',
    ],
    ['AKIAIOSFODNN7EXAMPLE', 'AKIAIOSFODNN7EXAMPLE'],
    ['https://user:hunter2@host/', 'hunter2'],
    ['Authorization: Bearer abc123def', 'abc123def'],
    ['Basic dXNlcjpwYXNzd29yZA==', 'dXNlcjpwYXNzd29yZA=='],
    ['?key=0123456789abcdef0123456789abcdef', '0123456789abcdef0123456789abcdef'],
    ['éé 9f86d081884c7d659a2feaa0c55ad015', '9f86d081884c7d659a2feaa0c55ad015'],
  ])('%s', (text, credential) => {
    expect(find(text)).toEqual([credential])
  })

  test.each([
    'anthropic/claude-3-5-sonnet-20241022',
    'user_0123456789abcdef0123456789abcdef',
    '01a2034f-ea4f-724f-a130-6321baf8b42b',
    `hmac-sha256:${'0a1b2c3d'.repeat(8)}`,
    'sk-or-v1-0e6...1c9',
    'Basic understanding of a bearer token',
    '2026-03-04T05:06:07.000Z',
    'internationalization_and_localization',
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1',
    'https://host:8080/path@home',
  ])('%s has none', text => {
    expect(find(text)).toEqual([])
  })

  test('takes time linear in the length', () => {
    for (const piece of [
      '://a:',
      'Bearer ',
      'sk-',
      'a1',
      '-----BEGIN ',
      '=@:/',
      'user_0',
      '.a1-',
    ]) {
      const text = piece.repeat(1_000_000 / piece.length)
      const began = readThreadCpu()
      findCredentials(text)
      expect([piece, readThreadCpu() - began < 1_500]).toEqual([piece, true])
    }
  })
})

const cases = LONG ? 10_000 : 500
test(`X-34 a random key under any name, at any depth, is replaced (${cases} cases, seed ${SEED})`, () => {
  const random = createSeededRandom(SEED)
  const pick = (from: string) => from[Math.floor(random() * from.length)] ?? ''
  const alphabets = [
    '0123456789abcdef',
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
  ]
  for (let i = 0; i < cases; i++) {
    const alphabet = alphabets[i % 2] ?? ''
    const key = Array.from({ length: 32 + Math.floor(random() * 32) }, () => pick(alphabet)).join(
      '',
    )
    const text = `${pick(' ?="(')}${key}${pick(' &"),')}`
    let value: unknown = i % 3 === 0 ? key : text
    for (let depth = Math.floor(random() * 5); depth > 0; depth--)
      value = random() < 0.5 ? [value] : { [`x${pick('abc_-')}`]: value }
    const replaced = replaceCredentials(value, { whole: () => '', partial: () => '' })
    expect(JSON.stringify(replaced)).not.toContain(key)
  }
})
