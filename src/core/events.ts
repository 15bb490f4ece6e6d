/** What the gateway tells about itself. Each wing declares its own events beside the code that tells them. */
// biome-ignore lint/suspicious/noEmptyInterface: the wings fill it
export interface EventMap {}

/** Tells whoever listens. `publish` never throws and never waits: a listener's failure is the listener's own. */
export interface Events {
  /** Listens until the returned `off` is called. */
  on<Name extends keyof EventMap>(name: Name, listener: (event: EventMap[Name]) => void): () => void
  publish<Name extends keyof EventMap>(name: Name, event: EventMap[Name]): void
}

type Listener = (event: never) => void

export function openEvents(): Events {
  const listeners = new Map<string, Listener[]>()
  const without = (name: string, listener: Listener) =>
    listeners.get(name)?.toSpliced(listeners.get(name)?.indexOf(listener) ?? 0, 1) ?? []
  return {
    on(name, listener) {
      listeners.set(name, [...(listeners.get(name) ?? []), listener])
      let isOn = true
      return () => {
        if (isOn) listeners.set(name, without(name, listener))
        isOn = false
      }
    },
    publish(name, event) {
      const heard = listeners.get(name)
      if (heard) for (const listener of heard) tell(listener, event as never)
    },
  }
}

function tell(listener: Listener, event: never): void {
  try {
    listener(event)
  } catch {
    // A listener may not harm the call it hears of.
  }
}
