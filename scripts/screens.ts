import { resolve } from 'node:path'
import { drawScreens, replaceScreens } from '../test/support/screens.ts'

/* `bun run screens` draws every view of the terminal UI into docs/tui.md. A test holds it true. */
const file = Bun.file(resolve(import.meta.dir, '../docs/tui.md'))
await Bun.write(file, replaceScreens(await file.text(), await drawScreens()))
process.exit(0)
