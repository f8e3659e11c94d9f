import './style/tokens.css';
import './style/base.css';
import './theme';
import { render } from 'preact';
import { followDownloads } from './api/downloads';
import { App } from './app';
import { writeOutEverywhere } from './harmless';
import { attempt } from './parts/overlays';

writeOutEverywhere();
followDownloads(attempt);
render(<App />, document.body);
