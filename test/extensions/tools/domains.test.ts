import { expect, test } from 'bun:test'
import { allowsUrl } from '../../../src/extensions/tools/domains.ts'

const CASES: [url: string, domain: string, isWithin: boolean][] = [
  ['https://example.com/', 'example.com', true],
  ['http://EXAMPLE.com:8080/a', 'example.com', true],
  ['https://docs.example.com/', 'example.com', true],
  ['https://example.com./', 'example.com', true],
  ['https://notexample.com/', 'example.com', false],
  ['https://example.com.evil.test/', 'example.com', false],
  ['https://evil.test/example.com', 'example.com', false],
  ['https://example.com@evil.test/', 'example.com', false],
  ['https://evil.test/?https://example.com/', 'example.com', false],
  ['https://example.com/docs', 'example.com/docs', true],
  ['https://example.com/docs/a', 'example.com/docs', true],
  ['https://example.com/docsters', 'example.com/docs', false],
  ['https://example.com/docs/../secret', 'example.com/docs', false],
  ['https://example.com/%64ocs', 'example.com/docs', false],
  ['https://whitehouse.gov/', 'gov', true],
]

test.each(CASES)('%s and the domain %s', (url, domain, isWithin) => {
  expect(allowsUrl({ allowed: [domain], excluded: [] }, url)).toBe(isWithin)
  expect(allowsUrl({ allowed: [], excluded: [domain] }, url)).toBe(!isWithin)
})

test.each(['', 'example.com', 'javascript:alert(1)', 'file:///etc/passwd', 'ftp://example.com/'])(
  '%s is no page of any list',
  url => {
    expect(allowsUrl({ allowed: [], excluded: [] }, url)).toBe(false)
    expect(allowsUrl({ allowed: ['example.com'], excluded: [] }, url)).toBe(false)
  },
)
