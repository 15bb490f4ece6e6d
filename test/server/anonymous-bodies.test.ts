import { describe, expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { testGateway } from '../support/gateway.ts'

const PIECE = new Uint8Array(16 * 1024).fill(97)
/** Far more than the bound, so that a reader that has none is told from one that reads ahead. */
const PIECES = 256

/** A body without an end in sight, and how many pieces of it were taken. */
function buildEndlessBody() {
  const taken = { count: 0 }
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (taken.count === PIECES) return controller.close()
        taken.count += 1
        controller.enqueue(PIECE.slice())
      },
    },
    { highWaterMark: 0 },
  )
  return { body, taken }
}

const FORM = 'application/x-www-form-urlencoded'

describe('a door that needs no key', () => {
  test.each([
    ['/api/v1/oauth/token', FORM],
    ['/api/v1/auth/keys', 'application/json'],
    ['/auth', FORM],
    ['/auth/link', FORM],
    ['/auth/sign-out', FORM],
    ['/auth/backchannel-logout', FORM],
  ])('%s reads no more than 64 KiB of a body', async (path, type) => {
    const gateway = await testGateway({ config: { oauth: { enabled: true } } })
    const { body, taken } = buildEndlessBody()
    const response = await createApp(gateway).handle(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': type, origin: 'http://localhost' },
        body,
      }),
    )
    expect(response.status).toBeGreaterThanOrEqual(400)
    expect(response.status).toBeLessThan(500)
    expect(taken.count).toBeLessThanOrEqual(6)
    await gateway.close()
  })

  test('with a key a larger body is read', async () => {
    const gateway = await testGateway()
    const { body, taken } = buildEndlessBody()
    const { createTestKeys } = await import('../support/gateway.ts')
    const { management } = await createTestKeys(gateway)
    await createApp(gateway).handle(
      new Request('http://localhost/api/v1/keys', {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${management}` },
        body,
      }),
    )
    expect(taken.count).toBe(PIECES)
    await gateway.close()
  })
})
