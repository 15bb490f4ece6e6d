import { describe, expect, test } from 'bun:test'
import { Secret } from '../../src/base/secret.ts'

describe('Secret', () => {
  test('X-04 is never printed, and returns its value by reveal', () => {
    const secret = new Secret('sk-secret')
    const shown = [
      `${secret}`,
      JSON.stringify({ secret }),
      Bun.inspect(secret),
      Bun.inspect({ nested: [secret] }),
      Object.values(secret).join(),
    ]
    for (const text of shown) expect(text).not.toContain('sk-secret')
    expect(secret.reveal()).toBe('sk-secret')
  })
})
