import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findRepeatedSetting } from '../../../src/cli/config-file/places.ts'
import { mayRepeatSetting, readConfig } from '../../../src/cli/config-file.ts'

const home = mkdtempSync(join(tmpdir(), 'gateway-repeated-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

const read = (text: string) => {
  const file = join(home, 'gateway.yaml')
  writeFileSync(file, text)
  return readConfig({ paths: [file], isNamed: true })
}

test.each([
  ['server: {metrics_key: true}\nlimits: {}\nserver: {port: 8081}\n', ':3:1: server'],
  ['server:\n  port: 1\n  host: a\n  port: 2\n', ':4:3: port'],
  ['server:\r\n  port: 1\r\n  port: 2\r\n', ':3:3: port'],
])('a setting that stands twice is refused where it does: %j', async (text, place) => {
  expect(mayRepeatSetting(text)).toBe(true)
  const said = `gateway.yaml${place}: expected once in its section, found twice`
  await expect(read(text)).rejects.toThrow(said)
})

test.each([
  'server:\n  port: 1\nlimits:\n  port: 2\n',
  'models:\n  - id: a\n    name: a\n  - id: b\n    name: b\n',
  'a:\n  b:\n    c: 1\n  d:\n    c: 1\n',
  '- - a: 1\n    b: 1\n  - a: 2\n- - a: 1\n',
])('a setting that stands once in each section is looked for no further: %j', text => {
  expect(mayRepeatSetting(text)).toBe(false)
})

test('a setting that stands twice in an item of a list is found', () => {
  const text = 'models:\n  - id: a\n    # one\n    name: b\n\n    id: c\n'
  expect([mayRepeatSetting(text), findRepeatedSetting(text)]).toEqual([true, 'id'])
})

test('lines of a text are no settings', () => {
  const text = 'a: |\n  x: 1\n  x: 2\nb: 1\n'
  expect([mayRepeatSetting(text), findRepeatedSetting(text)]).toEqual([true, undefined])
})

test('an alias within itself is refused, and one beside itself is none', async () => {
  await expect(read('models: &all [*all]\n')).rejects.toThrow('expected no alias within what')
  const { config } = await read(
    'server: {cors: &them [https://a.example]}\noauth: {origins: *them}\n',
  ).catch(thrown => ({ config: String(thrown) }))
  expect(String(config)).not.toContain('alias')
})

test.each(['10.0.0.0/8', 'http://127.0.0.1:9', '127.0.0.1:', '::1', ' ', 'a b', 'user@host'])(
  'a private host that no URL has is refused: %p',
  async host => {
    const text = `security: {allow_private_urls: [${JSON.stringify(host)}]}\n`
    await expect(read(text)).rejects.toThrow('a host, or host:port')
  },
)

test.each(['10.0.0.5', '10.0.0.5:9000', '[::1]', '[fd00::1]:80', 'internal.example', 'a_b:1'])(
  'a private host is a host, or a host and a port: %p',
  async host => {
    const { config } = await read(`security: {allow_private_urls: [${JSON.stringify(host)}]}\n`)
    expect(config.security.allow_private_urls).toEqual([host])
  },
)
