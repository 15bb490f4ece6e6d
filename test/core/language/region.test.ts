import { expect, test } from 'bun:test'
import { parseConfig } from '../../../src/core/config.ts'
import { resolveRegion } from '../../../src/core/language/region.ts'

const config = parseConfig(
  JSON.stringify({ regions: { europe: ['eu.example.com', 'Paris:8443'], us: ['us.example.com'] } }),
  {},
)

test.each([
  ['eu.example.com', 'europe'],
  ['EU.Example.COM:443', 'europe'],
  ['eu.example.com.', 'europe'],
  ['eu.example.com.:443', 'europe'],
  ['paris:8443', 'europe'],
  ['paris', 'global'],
  ['paris:8444', 'global'],
  ['us.example.com:1', 'us'],
  ['example.com', 'global'],
  ['eu.example.com.evil.org', 'global'],
  ['x.eu.example.com', 'global'],
  ['[::1]:8080', 'global'],
  ['', 'global'],
  [null, 'global'],
])('%p is %s', (host, region) => {
  expect(resolveRegion(config, host)).toBe(region as 'global')
})
