import { expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { Pace } from '../../../src/server/body.ts'

const KIB = 1024

/** Returns how many milliseconds pass until a body that never ends is refused. */
async function measureTime(seconds: number, size: number): Promise<number> {
  const began = performance.now()
  const pace = new Pace(seconds)
  pace.size = size
  const refused = await pace.limit(new Promise(() => {})).catch(GatewayError.from)
  expect(refused).toMatchObject({ status: 408 })
  return performance.now() - began
}

test('C-11 a body that never ends is refused, the later the more of it has arrived', async () => {
  const [empty, small, huge] = await Promise.all([
    measureTime(0.05, 0),
    measureTime(0.05, KIB / 5),
    measureTime(0.05, 30 * KIB * KIB),
  ])
  expect(empty).toBeGreaterThanOrEqual(49)
  expect(small).toBeGreaterThanOrEqual(249)
  expect(huge).toBeGreaterThanOrEqual(499)
})

test('a body that arrives is returned, and a failure of its connection is thrown', async () => {
  const bytes = new Uint8Array([1])
  expect(await new Pace(1).limit(Promise.resolve(bytes))).toBe(bytes)
  const lost = new Error('lost')
  expect(await new Pace(1).limit(Promise.reject(lost)).catch((thrown: unknown) => thrown)).toBe(
    lost,
  )
})
