import { expect, test } from 'bun:test'
import { unavailable } from '../../../../src/base/errors.ts'
import type { Asker, Trips } from '../../../../src/store/postgres/counts/trips.ts'
import { Window } from '../../../../src/store/postgres/counts.ts'

test('what was used beyond is told once, also where the database is late after it was told', () => {
  let used = 0
  const counted = {
    ...{ length: 60_000, number: 1 },
    getCount: () => used,
    setCount: (_: string, count: number) => {
      used = count
    },
  }
  const sent: Asker[] = []
  const sendCount = (asker: Asker) => void sent.push(asker)
  const window = new Window('requests', counted, {
    ...{ sendCount, clock: { ticks: () => 0 } },
  } as unknown as Trips)
  window.note('k')
  used = 3
  window.note('k')
  window.tend(new Set(), false)
  const share = sent[0] as Asker
  expect(share.ask()).toMatchObject({ debt: 3 })
  share.take({ number: 1, born: 1, taken: 3, granted: 0, nodes: 1, moment: 60_000 } as never)
  void window.cover('k', 1, 10)?.catch(() => undefined)
  share.fail(unavailable(), true)
  window.tend(new Set(), true)
  expect(share.ask()).toMatchObject({ known: 3, debt: 0 })
})
