import { expect, test } from 'bun:test'
import { openPlaces } from '../../../src/cli/config-file/places.ts'

const TEXT = `# a comment
server:
  port: 80
providers:
  local: { protocol: x, "base_url": y }
models:
  - id: a/b
    endpoints:
      - provider: local
`

test.each([
  [['server'], ':2:1'],
  [['server', 'port'], ':3:3'],
  [['server', 'host'], ':2:1'],
  [['providers', 'local', 'base_url'], ':5:25'],
  [['models', '0'], ':7:5'],
  [['models', '0', 'endpoints', '0', 'provider'], ':9:9'],
  [['models', '1', 'id'], ':6:1'],
  [['none'], ''],
  [[], ''],
])('%j is at %j', (names, place) => {
  expect(openPlaces(TEXT)(names)).toBe(place)
})

test('a text that is no YAML has the place where that shows', () => {
  expect(openPlaces('server:\n  port: "80\n')(['x'])).toMatch(/^:[23]:\d+$/)
  expect(openPlaces('')(['x'])).toBe('')
})
