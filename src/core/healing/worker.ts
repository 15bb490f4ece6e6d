/** The Worker's side: mends texts off the server's event loop. */

import type { HealingRequest } from '../healing.ts'
import { healText } from './heal.ts'

self.onmessage = ({ data }: MessageEvent<HealingRequest>) => postMessage(healText(data))
