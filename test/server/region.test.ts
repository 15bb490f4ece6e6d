import { expect, test } from 'bun:test'
import { parseConfig } from '../../src/config.ts'
import { resolveRegion } from '../../src/server/headers.ts'

const config = parseConfig(
  JSON.stringify({
    server: { trusted_proxies: ['127.0.0.1', '10.0.0.0/8', 'fd00::/8'] },
    regions: { europe: ['eu.example.com', 'Paris:8443'], us: ['us.example.com'] },
  }),
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
  expect(resolveRegion(config, host, () => '127.0.0.1')).toBe(region as 'global')
})

test.each([
  ['127.0.0.1', 'europe'],
  ['::ffff:127.0.0.1', 'europe'],
  ['10.200.3.4', 'europe'],
  ['fd12::1', 'europe'],
  ['11.0.0.1', 'global'],
  ['::1', 'global'],
  [null, 'global'],
])('a Host that %p sends is %s', (peer, region) => {
  expect(resolveRegion(config, 'eu.example.com', () => peer)).toBe(region as 'global')
})
