import { Box, type Key, useInput, useWindowSize } from 'ink'
import { type ComponentType, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { toPrintable } from '../../base/printable.ts'
import type { Feed } from '../feed.ts'
import { describeFailure } from './failure.ts'
import { type Action, KEYS } from './keys.ts'
import { Lines } from './lines.tsx'
import { Live, type LiveAlarm } from './live.ts'
import type { Source } from './source.ts'
import { fit, type Line, measure, say } from './text.ts'
import { useScroll } from './use-scroll.ts'
import { dispatch, type Shell, ShellContext } from './use-shell.ts'
import type { ViewProps } from './view.ts'
import { CallsView } from './views/calls.tsx'
import { EndpointsView } from './views/endpoints.tsx'
import { KeysView } from './views/keys.tsx'
import { MoneyView } from './views/money.tsx'
import { NounsView } from './views/nouns.tsx'
import { OverviewView } from './views/overview.tsx'

/** The views, by their number. */
const VIEWS: {
  name: string
  View: ComponentType<ViewProps>
  hint: string
  /** Whether it shows what is stored alone, and nothing of what the feed tells. */
  isStill?: boolean
}[] = [
  { name: 'Calls', View: CallsView, hint: 'enter open · / filter · s sort · p pause' },
  { name: 'Endpoints', View: EndpointsView, hint: 'z rest · w wake · / filter' },
  { name: 'Money', View: MoneyView, hint: 'a add credits · / filter', isStill: true },
  {
    name: 'Keys',
    View: KeysView,
    hint: 'n new · d disable · m limit · x delete · enter open',
    isStill: true,
  },
  { name: 'Overview', View: OverviewView, hint: '' },
  {
    name: 'More',
    View: NounsView,
    hint: 'enter open · n e d m x t u change it · esc back',
    isStill: true,
  },
]

/** The smallest screen that shows something useful. */
const LEAST = { columns: 40, rows: 8 }

/** In characters: the longest text that a question takes. What is pasted beyond it is cut. */
const LONGEST_TEXT = 200
/** The same for a secret: a service account has thousands. */
const LONGEST_SECRET = 20_000

/** A question on the last line. */
interface Question {
  text: string
  typed: string
  /** Whether one key answers it. */
  isYesNo: boolean
  /** Whether what is typed is not shown. */
  isSecret?: boolean | undefined
  onChange: ((text: string) => void) | undefined
  resolve(answer: string | null): void
}

/** What was said last, and how it sounds. */
interface Notice {
  text: string
  kind: LiveAlarm['kind']
}

interface AppProps {
  source: Source
  /** Called when somebody leaves. */
  onLeave(): void
  /** Replaces that of the terminal. */
  size?: { columns: number; rows: number }
}

/** The terminal UI over one source. */
export function App({ source, onLeave, size }: AppProps) {
  const terminal = useWindowSize()
  const { columns, rows } = size ?? terminal
  const [view, setView] = useState(0)
  const isShown = useRef(true)
  isShown.current = VIEWS[view]?.isStill !== true
  const { live, connection, now } = useLive(source, isShown)
  const [isHelp, setHelp] = useState(false)
  const [notice, setNotice] = useState<Notice | null>(null)
  const [question, asked, setQuestion] = useLatest<Question | null>(null)
  const [openHint, setHint] = useState<string | null>(null)
  const shell = useScreen(question === null && !isHelp, { setQuestion, setNotice, setHint })

  useInput((input, key) => {
    if (key.ctrl && input === 'c') return onLeave()
    // The key that has opened a question is not part of its answer.
    if (asked.current)
      return asked.current.resolve === question?.resolve
        ? setQuestion(answerQuestion(asked.current, input, key))
        : undefined
    if (isHelp) return leaveHelp(input, key, onLeave)
    setNotice(null)
    dispatch(input, key, (action, letter) => {
      const to = chooseView(view, action, letter)
      if (to !== null) setView(to)
      if (action === 'help') setHelp(true)
      if (action === 'quit') onLeave()
    })
  })

  if (columns < LEAST.columns || rows < LEAST.rows)
    return (
      <Lines
        height={1}
        lines={[say(fit(`Too small: ${columns}×${rows}, 60×18 is needed`, columns))]}
      />
    )
  const { View, hint } = VIEWS[view] ?? (VIEWS[0] as (typeof VIEWS)[number])
  const height = rows - 3
  const props = { live, source, now, width: columns, height }
  return (
    <ShellContext.Provider value={shell}>
      <Box flexDirection="column" width={columns} height={rows - 1}>
        <Lines height={1} lines={[renderHeader(view, columns, source.name, connection)]} />
        {isHelp ? (
          <HelpView width={columns} height={height} onClose={() => setHelp(false)} />
        ) : null}
        <Box display={isHelp ? 'none' : 'flex'}>
          <View key={view} {...props} />
        </Box>
        <Lines
          height={1}
          lines={[renderFooter(question, notice, connection, openHint ?? hint, columns)]}
        />
      </Box>
    </ShellContext.Provider>
  )
}

/** The help, over any view. Any key but those that scroll or leave closes it. */
function HelpView({ width, height, onClose }: { width: number; height: number; onClose(): void }) {
  const lines = renderHelp(width)
  const room = height - 1
  const { top, handle } = useScroll(lines.length, room)
  useInput((input, key) => {
    let isScrolled = false
    dispatch(input, key, action => {
      isScrolled = handle(action)
    })
    if (!isScrolled) onClose()
  })
  const last = Math.min(lines.length, top + room)
  const shown = `${top + 1} to ${last} of ${lines.length} · ↑ ↓ scroll`
  const heading = lines.length > room ? `Keys ${shown} · other keys close` : 'Keys'
  return (
    <Lines height={height} lines={[say(fit(heading, width), 'bold'), ...lines.slice(top, last)]} />
  )
}

/** Lists every key and what it does. */
const renderHelp = (width: number): Line[] => [
  ...Object.values(KEYS).map(
    ({ keys, means, where }): Line => [
      { text: fit(keys.join(', '), 18), style: 'accent' },
      { text: fit(`${means} (${where})`, Math.max(1, width - 18)), style: 'plain' },
    ],
  ),
]

/** Leaves where that is asked for over the help, which takes all other keys. */
function leaveHelp(input: string, key: Key, onLeave: () => void): void {
  dispatch(input, key, action => {
    if (action === 'quit') onLeave()
  })
}

/** A state that is known at once, as several keys may come before the next drawing. */
function useLatest<Value>(initial: Value) {
  const [value, setValue] = useState(initial)
  const latest = useRef(initial)
  const change = useCallback((next: Value) => {
    latest.current = next
    setValue(next)
  }, [])
  return [value, latest, change] as const
}

interface Setters {
  setQuestion(question: Question | null): void
  setNotice(notice: Notice | null): void
  setHint(hint: string | null): void
}

function useScreen(isFree: boolean, { setQuestion, setNotice, setHint }: Setters): Shell {
  const open = useCallback(
    (question: Omit<Question, 'resolve'>) =>
      new Promise<string | null>(resolve => setQuestion({ ...question, resolve })),
    [setQuestion],
  )
  return useMemo(() => {
    const notify: Shell['notify'] = (text, kind = 'warn') => setNotice({ text, kind })
    return {
      isFree,
      notify,
      hint: setHint,
      ask: (text, typed = '', onChange, isSecret) =>
        open({ text, typed, isYesNo: false, onChange, isSecret }),
      confirm: async text =>
        (await open({ text, typed: '', isYesNo: true, onChange: undefined })) === 'y',
      attempt: work => void work().catch(thrown => notify(describeFailure(thrown), 'bad')),
    }
  }, [isFree, open, setNotice, setHint])
}

/** Takes a key for a question. Returns what is left of it: null once it is answered. */
function answerQuestion(
  question: Question,
  input: string,
  key: { return: boolean; escape: boolean; backspace: boolean; delete: boolean; ctrl: boolean },
): Question | null {
  const { typed, isYesNo, isSecret, onChange, resolve } = question
  const longest = isSecret ? LONGEST_SECRET : LONGEST_TEXT
  // Several keys may come at once: those up to the end of a line are an answer.
  const lineEnd = isYesNo ? -1 : input.search(/[\r\n]/)
  if (lineEnd > 0) {
    const line = answerQuestion(question, input.slice(0, lineEnd), key)
    resolve(line?.typed ?? typed)
    return null
  }
  if (isYesNo || key.escape || key.return) {
    resolve(key.escape ? null : isYesNo ? input.toLowerCase() : typed)
    return null
  }
  const text =
    key.backspace || key.delete
      ? [...typed].slice(0, -1).join('')
      : key.ctrl
        ? typed
        : (typed + toPrintable(input.slice(0, longest)).replaceAll('\uFFFD', '')).slice(0, longest)
  onChange?.(text)
  return { ...question, typed: text }
}

function chooseView(view: number, action: Action, letter: string): number | null {
  if (action === 'view') return Number(letter) - 1
  if (action === 'next') return (view + 1) % VIEWS.length
  if (action === 'previous') return (view + VIEWS.length - 1) % VIEWS.length
  return null
}

function renderHeader(view: number, width: number, name: string, connection: Connection): Line {
  const state = connection.isOpen ? 'live' : 'no server'
  const named = VIEWS.map(({ name }, index) => ` ${index + 1} ${name} `)
  const isNarrow = named.join('').length + 'no server'.length + 2 > width
  const tabs: Line = named.map((text, index) => ({
    text: isNarrow && index !== view ? ` ${index + 1} ` : text,
    style: index === view ? 'selected' : 'plain',
  }))
  const used = tabs.reduce((sum, { text }) => sum + text.length, 0)
  const room = width - used - state.length - 2
  const place =
    measure(name) > room - 1 ? `…${name.slice(Math.max(0, name.length - room + 2))}` : name
  return [
    ...tabs,
    { text: fit(place, Math.max(0, room), 'right'), style: 'dim' },
    { text: `  ${state}`, style: connection.isOpen ? 'good' : 'bad' },
  ]
}

/** Shows the end of a question where all of it does not fit: what is typed is there. */
function fitEnd(text: string, width: number): string {
  const printable = toPrintable(text)
  let from = 0
  while (measure(printable.slice(from)) > width - 1 && from < printable.length) from += 1
  return fit(from === 0 ? printable : `…${printable.slice(from + 1)}`, width)
}

function renderFooter(
  question: Question | null,
  notice: Notice | null,
  { isOpen, reason }: Connection,
  hint: string,
  width: number,
): Line {
  if (question) {
    const { text, typed, isYesNo, isSecret } = question
    if (isYesNo) return say(fitEnd(`${text} [y/N]`, width), 'accent')
    const shown = isSecret
      ? `${'•'.repeat(Math.min(8, typed.length))} ${typed.length} characters`
      : typed
    return say(fitEnd(`${text}: ${shown}▏`, width), 'accent')
  }
  if (notice) return say(fit(notice.text, width), notice.kind)
  if (!isOpen && reason) return say(fit(`${reason}. What is stored is shown`, width), 'warn')
  return say(fit(fitHint(hint, width), width), 'dim')
}

const ALWAYS = '? keys · q quit'

/** Leaves out of a hint what has no room, from its end: the way to the help stays. */
function fitHint(hint: string, width: number): string {
  const pieces = hint === '' ? [] : hint.split(' · ')
  while (pieces.length > 0 && measure([...pieces, ALWAYS].join(' · ')) > width) pieces.pop()
  return [...pieces, ALWAYS].join(' · ')
}

/** In milliseconds, between two drawings of what the feed tells: four a second, or fewer. */
const DRAW_INTERVAL = 250
const LONGEST_DRAW_INTERVAL = 2_000

/** The share of a core that drawing may take: a large screen is drawn less often. */
const CPU_SHARE = 0.035

/** In milliseconds, before the feed is opened again. */
const RETRY_INTERVAL = 1_000

/** How many finished calls are shown at the start. */
const MOST_RECORDS = 100

/** Whether the feed is open, and why it is not. */
interface Connection {
  isOpen: boolean
  reason: string | null
}

/**
 * Follows a source: what its feed has told, and whether it is open. Draws at most four times a
 * second, and only while something of it is shown.
 */
function useLive(
  source: Source,
  isShown: { readonly current: boolean },
): { live: Live; connection: Connection; now: number } {
  const live = useRef<Live>(null)
  live.current ??= new Live()
  const [connection, setConnection] = useState<Connection>({ isOpen: false, reason: null })
  const [, redraw] = useState(0)
  const followed = live.current
  useEffect(() => {
    void addRecords(source, followed)
    return follow(source, followed, setConnection)
  }, [source, followed])
  useEffect(() => {
    let drawn = -1
    let before = process.cpuUsage()
    let timer: ReturnType<typeof setTimeout>
    const draw = () => {
      const { user, system } = process.cpuUsage(before)
      before = process.cpuUsage()
      const interval = computeInterval((user + system) / 1000)
      timer = setTimeout(draw, interval)
      if (!isShown.current || (followed.version === drawn && !followed.isRunning)) return
      drawn = followed.version
      redraw(count => count + 1)
    }
    timer = setTimeout(draw, DRAW_INTERVAL)
    return () => clearTimeout(timer)
  }, [followed, isShown])
  return { live: followed, connection, now: Date.now() }
}

/** Computes when to draw again, in milliseconds, after so much work since the last time. */
export const computeInterval = (cpuMilliseconds: number): number =>
  Math.min(LONGEST_DRAW_INTERVAL, Math.max(DRAW_INTERVAL, cpuMilliseconds / CPU_SHARE))

/** Adds the calls on record: those from before the feed. Without them the feed is shown alone. */
async function addRecords(source: Source, live: Live): Promise<void> {
  for (const call of await source.listCalls(MOST_RECORDS).catch(() => [])) live.addRecord(call)
}

/** Reads the feed, and opens it again when it ends, until it is stopped. */
function follow(source: Source, live: Live, onChange: (connection: Connection) => void) {
  let isStopped = false
  let feed: Feed | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const retry = (reason: string) => {
    if (isStopped) return
    live.forgetRunning()
    onChange({ isOpen: false, reason })
    timer = setTimeout(() => void open(), RETRY_INTERVAL)
  }
  const open = async () => {
    try {
      feed = await source.openFeed()
      if (isStopped) return feed.close()
      onChange({ isOpen: true, reason: null })
      void addRecords(source, live)
      for await (const batch of feed.batches) live.applyAll(batch)
      retry('the server has ended')
    } catch (thrown) {
      retry(describeFailure(thrown))
    }
  }
  void open()
  return () => {
    isStopped = true
    clearTimeout(timer)
    feed?.close()
  }
}
