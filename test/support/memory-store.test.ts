import { testStore } from '../suites/store.ts'
import { Memory, openMemoryStore } from './memory-store.ts'
import { LONG } from './random.ts'

/** Each seed delays other answers. */
for (const seed of LONG ? [1, 2, 3] : [1])
  testStore(
    `in plain Maps, asynchronous (seed ${seed})`,
    async () => openMemoryStore({ seed }),
    async () => {
      const memory = new Memory()
      return [openMemoryStore({ memory, seed }), openMemoryStore({ memory, seed: seed + 1 })]
    },
  )
