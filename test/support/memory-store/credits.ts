import type { CreditStore } from '../../../src/limits/world.ts'
import { addAudit } from './audit.ts'
import { addRow, addSpend } from './ledger.ts'
import type { Connection } from './memory.ts'

/** Credits in memory. */
export const createMemoryCreditStore = (connection: Connection): CreditStore => ({
  insert: (credit, entry, opening) =>
    connection.write(memory => {
      if (opening) {
        if (memory.ledger.all().some(({ id }) => id === opening.id)) return
        addRow(memory, { ...opening, source: 'opening' })
        addSpend(memory, opening)
      }
      memory.credits.insert(credit.id, credit)
      addAudit(memory, entry)
    }),
  computeTotal: () =>
    connection.read(({ credits }) => credits.all().reduce((sum, { amount }) => sum + amount, 0n)),
  listPage: (offset, limit) =>
    connection.read(({ credits }) => {
      const all = credits.all().reverse()
      return { credits: all.slice(offset, offset + limit), count: all.length }
    }),
})
