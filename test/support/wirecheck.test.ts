import { expect, test } from 'bun:test'
import { hasWirecheck, startWirecheck } from './wirecheck.ts'

const serve = (answer: object) => Bun.serve({ port: 0, fetch: () => Response.json(answer) })

test.skipIf(!hasWirecheck)('a checker reports what the gateway of its check answered', async () => {
  using wrong = serve({ data: [{ id: 5 }] })
  using other = serve({ data: { label: 'other' } })
  const first = await startWirecheck(wrong.url.origin)
  const beside = await startWirecheck(other.url.origin)
  await fetch(`${first.url}/api/v1/models`)
  expect((await first.report()).violations).toMatchObject([{ op: 'getModels', status: 200 }])
  expect(await beside.report()).toMatchObject({ seen: {}, violations: [] })
  await Promise.all([first.close(), beside.close()])

  const next = await startWirecheck(other.url.origin)
  expect(await next.report()).toMatchObject({ seen: {}, violations: [] })
  const answer = await fetch(`${next.url}/api/v1/key`)
  expect(await answer.json()).toEqual({ data: { label: 'other' } })
  await next.close()
})
