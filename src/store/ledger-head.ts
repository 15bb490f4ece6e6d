import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject, readObject } from '../base/json.ts'
import type { Mac } from '../base/mac.ts'
import type { Ends, HeadFile } from '../limits/chain.ts'
import { readDataFile, writeDataFile } from './data-files.ts'

/**
 * Opens the file beside the database that says where the ledger and the log of seals ended. SQLite
 * drops the tail of a damaged log silently, and an earlier state of the database is valid in itself:
 * only a record of the ends shows that rows are missing. The file is sealed, so that it cannot be
 * altered without the secret.
 */
export const openHeadFile = (data: string, mac: Mac): HeadFile => {
  const path = join(data, 'ledger.head')
  return {
    isKept: true,
    read: () => parseEnds(readDataFile(path)?.toString() ?? '')?.ends ?? null,
    examine() {
      const text = readDataFile(path)?.toString()
      if (text === undefined) return 'missing'
      const parsed = parseEnds(text)
      if (!parsed) return 'altered'
      if (parsed.seal === null) return 'unsealed'
      return parsed.seal === sealEnds(mac, parsed.ends) ? 'genuine' : 'altered'
    },
    write(ends) {
      const content = { ...ends.ledger, seals: ends.seals, seal: sealEnds(mac, ends) }
      try {
        writeDataFile(`${path}.new`, `${JSON.stringify(content)}\n`)
        renameSync(`${path}.new`, path)
      } catch (error) {
        rmSync(`${path}.new`, { force: true })
        throw error
      }
    },
  }
}

/** Reads the ends and their seal; null if the text is no head. Earlier versions wrote no seal. */
function parseEnds(text: string): { ends: Ends; seal: string | null } | null {
  const { seq, hash, seals, seal } = parseObject(text) ?? {}
  if (typeof seq !== 'number' || typeof hash !== 'string') return null
  const { n, seal: last } = readObject({ seals }, 'seals')
  const isSealed = typeof n === 'number' && typeof last === 'string'
  return {
    ends: { ledger: { seq, hash }, seals: isSealed ? { n, seal: last } : null },
    seal: typeof seal === 'string' ? seal : null,
  }
}

const sealEnds = (mac: Mac, { ledger, seals }: Ends): string =>
  mac(JSON.stringify(['ends', ledger.seq, ledger.hash, seals?.n ?? null, seals?.seal ?? null]))
