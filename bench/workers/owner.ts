/* The owner's side: reads records line by line and answers how many it has, with its own CPU. */

import { argv } from 'node:process'

const [path = ''] = argv.slice(2)
const NEWLINE = 0x0a
const begun = process.cpuUsage()

Bun.listen<{ rest: Buffer }>({
  unix: path,
  socket: {
    open(socket) {
      socket.data = { rest: Buffer.alloc(0) }
    },
    data(socket, piece) {
      const bytes = socket.data.rest.length > 0 ? Buffer.concat([socket.data.rest, piece]) : piece
      const end = bytes.lastIndexOf(NEWLINE) + 1
      socket.data.rest = Buffer.from(bytes.subarray(end))
      const records = bytes.toString('utf8', 0, end).split('\n').slice(0, -1).map(readRecord)
      if (records.length === 0) return
      const { user, system } = process.cpuUsage(begun)
      socket.write(`${records.length} ${user + system}\n`)
    },
  },
})
process.stdout.write('listening\n')

function readRecord(line: string): string {
  const { record } = JSON.parse(line) as { record: unknown[] }
  return String(record[0])
}
