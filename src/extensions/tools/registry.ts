import type { ServerTool } from '../server-tool.ts'
import { advisor } from './advisor.ts'
import { applyPatch } from './apply-patch.ts'
import { bash } from './bash.ts'
import { datetime } from './datetime.ts'
import { files } from './files.ts'
import { fusion } from './fusion.ts'
import { imageGeneration } from './image-generation.ts'
import { mcp } from './mcp.ts'
import { searchModels } from './search-models.ts'
import { shell } from './shell.ts'
import { subagent } from './subagent.ts'
import { toolSearch } from './tool-search.ts'
import { webFetch } from './web-fetch.ts'
import { webSearch } from './web-search.ts'

/** Every tool that the gateway runs itself, in the order in which they are listed. */
export const TOOLS: ServerTool[] = [
  ...[applyPatch, datetime, webSearch, webFetch, mcp, searchModels, toolSearch],
  ...[advisor, subagent, fusion, imageGeneration, files, shell, bash],
] as ServerTool[]
